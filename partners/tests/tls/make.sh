#!/bin/sh
# Makes the certificates and keys of the tests anew. They are of tests, known to everybody, and worth nothing.
set -eu
cd "$(dirname "$0")"
days=36500
ca() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "$days" -keyout "$1.key" -out "$1.pem" -subj "/CN=Payfold TEST $1" 2>/dev/null; }
# NAME CA KEY-ARGUMENTS EXTENSIONS DAYS
leaf() {
  openssl req -new $3 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=Payfold TEST $1" 2>/dev/null
  printf '%s\n' "$4" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days "$5" -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  { echo "Payfold TEST certificate and key, known to everybody"; cat "$1.crt" "$1.key"; } > "$1.pem"
  rm -f "$1.csr" "$1.ext" "$1.crt" "$1.key"
}
ca ca
ca strangers-ca
leaf server ca "-newkey ec -pkeyopt ec_paramgen_curve:P-256" "subjectAltName=IP:127.0.0.1" "$days"
leaf client-ec ca "-newkey ec -pkeyopt ec_paramgen_curve:P-384" "extendedKeyUsage=clientAuth" "$days"
leaf client-rsa ca "-newkey rsa:2048" "extendedKeyUsage=clientAuth" "$days"
leaf strangers-client strangers-ca "-newkey ed25519" "extendedKeyUsage=clientAuth" "$days"
leaf client-p521 ca "-newkey ec -pkeyopt ec_paramgen_curve:P-521" "extendedKeyUsage=clientAuth" "$days"
openssl genrsa -out rsa-2048.pem 2048 2>/dev/null
openssl rsa -in rsa-2048.pem -traditional -out rsa-2048-pkcs1.pem 2>/dev/null
openssl rsa -in rsa-2048.pem -pubout -out rsa-2048-public.pem 2>/dev/null
openssl genrsa -out rsa-1024.pem 1024 2>/dev/null
openssl pkcs8 -topk8 -in rsa-2048.pem -out rsa-encrypted.pem -passout pass:test 2>/dev/null
openssl genpkey -algorithm ed25519 -out ed25519.pem 2>/dev/null
openssl pkey -in ed25519.pem -pubout -out ed25519-public.pem 2>/dev/null
openssl ecparam -genkey -name prime256v1 -noout -out ec-sec1.pem 2>/dev/null
rm -f ca.key strangers-ca.key ca.srl strangers-ca.srl
for file in rsa-*.pem ed25519*.pem ec-sec1.pem; do
  { echo "Payfold TEST key, known to everybody"; cat "$file"; } > marked
  cat marked > "$file"
  chmod 644 "$file"
done
rm -f marked
