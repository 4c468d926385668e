"""Writes JSON schemas where kubeconform finds them: TARGET/VERSION/KIND-GROUP-VERSION.json.

python3 schemas.py WHEELS DEFINITIONS TARGET VERSION…

WHEELS is a folder with the wheels of requirements.txt, DEFINITIONS one with CustomResourceDefinitions as YAML. Every schema
is strict: a field it does not name is an error.
"""

import json
import pathlib
import sys
import zipfile

wheels, definitions, target = map(pathlib.Path, sys.argv[1:4])
versions = sys.argv[4:]


def wheel(name):
    """The one wheel of this name."""
    (found,) = wheels.glob(f"{name}-*.whl")
    return found


def copy_kubernetes(version):
    """Schemas of Kubernetes' own kinds, their references made relative: the originals lead to a server."""
    folder = f"kubernetes_validate/kubernetes-json-schema/v{version}.0-local-strict/"
    (target / version).mkdir(parents=True)
    with zipfile.ZipFile(wheel("kubernetes_validate")) as archive:
        names = [name for name in archive.namelist() if name.startswith(folder)]
        if not names:
            sys.exit(f"{wheel('kubernetes_validate').name} has no schemas of Kubernetes {version}")
        for name in names:
            text = archive.read(name).decode().replace('"/api/_definitions.json#', '"_definitions.json#')
            schema = json.loads(text)
            schema.pop("$id", None)
            (target / version / name.removeprefix(folder)).write_text(json.dumps(schema))


def make_strict(schema):
    """Allows the named fields alone, as the API server does for a definition that keeps no unknown ones."""
    if isinstance(schema, list):
        for part in schema:
            make_strict(part)
    if not isinstance(schema, dict):
        return
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
    elif "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for part in schema.values():
        make_strict(part)


def write_custom(path):
    """Schemas of one CustomResourceDefinition. Its metadata is Kubernetes' own, and checked as such."""
    from ruamel.yaml import YAML

    spec = YAML(typ="safe", pure=True).load(path)["spec"]
    for served in spec["versions"]:
        schema = served["schema"]["openAPIV3Schema"]
        make_strict(schema)
        metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        schema["properties"]["metadata"] = {"$ref": f"_definitions.json#/$defs/{metadata}"}
        group = spec["group"].partition(".")[0]
        name = f"{spec['names']['kind'].lower()}-{group}-{served['name']}.json"
        for version in versions:
            (target / version / name).write_text(json.dumps(schema))


for version in versions:
    copy_kubernetes(version)
with zipfile.ZipFile(wheel("ruamel_yaml")) as archive:
    archive.extractall(wheels)
sys.path.insert(0, str(wheels))
for kind in ["servicemonitors", "prometheusrules"]:
    write_custom(definitions / f"monitoring.coreos.com_{kind}.yaml")
