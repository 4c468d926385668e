//! Owns the tests of a directory of keys on a real file system, as kubelet and others fill it.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::vault::{VaultPlace, VaultWatch};

const LONG: &str = "text:hush, a secret of 24 bytes or more";

/// A directory as kubelet makes one: files in a folder of their time, `..data` to that, a link for each name.
struct Mounted {
    dir: tempfile::TempDir,
    swaps: u32,
}

impl Mounted {
    fn of(files: &[(&str, &str)]) -> Self {
        let mut mounted = Self { dir: tempfile::tempdir().unwrap(), swaps: 0 };
        mounted.swap(files);
        mounted
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What kubelet does: a new folder, a new link renamed over `..data`, the old folder away.
    fn swap(&mut self, files: &[(&str, &str)]) {
        self.fill(files);
        self.point();
    }

    /// The half of a swap that nobody may see.
    fn fill(&mut self, files: &[(&str, &str)]) {
        self.swaps += 1;
        let folder = self.path().join(format!("..2026_01_{}", self.swaps));
        std::fs::create_dir(&folder).unwrap();
        for (name, content) in files {
            put(&folder.join(name), content);
            let link = self.path().join(name);
            if !link.exists() {
                let _ = std::fs::remove_file(&link);
                symlink(Path::new(DATA_LINK).join(name), link).unwrap();
            }
        }
    }

    fn point(&self) {
        let old = std::fs::read_link(self.path().join(DATA_LINK)).ok();
        let new = self.path().join("..data_tmp");
        symlink(format!("..2026_01_{}", self.swaps), &new).unwrap();
        std::fs::rename(new, self.path().join(DATA_LINK)).unwrap();
        if let Some(old) = old {
            std::fs::remove_dir_all(self.path().join(old)).unwrap();
        }
    }
}

fn put(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o440)).unwrap();
}

fn names(document: &VaultDocument) -> Vec<String> {
    let keys = |account: &crate::document::AccountEntry| {
        let of = format!("{}/{}", account.partner, account.merchant_code);
        account.keys.iter().map(|key| format!("{of} {}", key.id)).collect::<Vec<_>>()
    };
    document.accounts.iter().flat_map(keys).collect()
}

fn wrong(files: &[(&str, &str)]) -> String {
    let mounted = Mounted::of(files);
    let error = read_settled(mounted.path()).unwrap_err();
    let told = format!("{error}");
    assert!(!format!("{told} {error:?}").contains("hush"), "{error:?}");
    told
}

#[test]
fn a_mounted_directory_is_a_vault() {
    let plain = "[[accounts]]\npartner = 'acme'\nmerchant_code = 'SHOP'\nrate_per_s = 9\n\
        constants = { app = '42' }\n[[tokens]]\nname = 'ada'\nsha256 = '5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592'\n";
    let mounted = Mounted::of(&[
        ("acme.SHOP.ipn.b", &format!("secret = '{LONG} b'\nvalid_from = 2026-01-31T00:00:00Z")),
        ("acme.SHOP.ipn.a", &format!("{LONG} a\n")),
        ("acme.SHOP.return.r", LONG),
        ("bolt.X.unwrap.u", "text:sixteen bytes it"),
        (PLAIN_FILE, plain),
    ]);
    let (seen, document) = read_settled(mounted.path()).unwrap();
    assert!(seen.is_swapped_whole());
    assert_eq!(names(&document), ["acme/SHOP a", "acme/SHOP r", "acme/SHOP b", "bolt/X u"]);
    let account = &document.accounts[0];
    assert_eq!((account.rate_per_s, account.constants["app"].as_str()), (Some(9), "42"));
    assert_eq!(document.tokens.len(), 1);
    assert_eq!(VaultPlace::Dir(mounted.path().to_owned()).read().unwrap().accounts.len(), 2);
}

#[test]
fn everything_wrong_is_told_at_once_by_file() {
    let told = wrong(&[
        ("README", "hush"),
        ("acme.SHOP.ipn.a", "text:hush"),
        ("acme.SHOP.ipn.b", LONG),
        ("acme.SHOP.ipn.c", &format!("{LONG} c")),
        (
            "acme.SHOP.ipn.d",
            &format!("secret = '{LONG}'\nkey_id = 'b'\nvalid_from = 2026-01-31T00:00:00Z"),
        ),
        (
            PLAIN_FILE,
            "[[accounts]]\npartner = 'acme'\nmerchant_code = 'SHOPP'\nconstants = { 'a b' = 'x' }\n\
             [[tokens]]\nname = 'local'\nsha256 = '5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592'\n\
             [[shops]]\nname = 'web'\naccounts = [{ partner = 'bolt', merchant_code = 'X' }]\n",
        ),
    ]);
    let lines: Vec<_> = told.lines().skip(1).map(str::trim).collect();
    for (line, expected) in lines.iter().zip([
        "README: its name is no key's",
        "README: line 1 is not understood",
        "acme.SHOP.ipn.a: key a has 4 bytes, 16 or more are needed",
        "acme.SHOP.ipn.c: neither it nor acme.SHOP.ipn.b says since when it counts",
        "acme.SHOP.ipn.d: key b is there twice",
        "vault.toml: constant \"a b\"",
        "vault.toml: account acme/SHOPP has no key file",
        "vault.toml: each process makes a token named local",
        "vault.toml: shop web lists account bolt/X",
    ]) {
        assert!(line.starts_with(expected), "{expected}: {line}");
    }
    assert_eq!(lines.len(), 9, "{told}");
}

#[test]
fn a_key_that_everybody_may_read_is_refused_and_a_groups_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("acme.SHOP.ipn.a");
    put(&path, LONG);
    for (mode, opens) in
        [(0o440, true), (0o640, true), (0o400, true), (0o444, false), (0o441, false)]
    {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        match read_settled(dir.path()) {
            Ok(_) => assert!(opens, "{mode:o}"),
            Err(error) => {
                let told = error.to_string();
                assert!(!opens && told.contains("acme.SHOP.ipn.a: it has mode 0"), "{told}");
                assert!(told.contains("defaultMode: 0440"), "{told}");
            }
        }
    }
    std::fs::create_dir(dir.path().join("acme.SHOP.ipn.b")).unwrap();
    let told = read_settled(dir.path()).unwrap_err().to_string();
    assert!(told.contains("acme.SHOP.ipn.b: this is no file"), "{told}");
}

#[test]
fn nothing_there_is_not_a_vault_without_keys() {
    let mounted = Mounted::of(&[]);
    assert!(matches!(read_settled(mounted.path()), Err(VaultError::Empty { .. })));
    let gone = mounted.path().join("gone");
    assert!(matches!(read_settled(&gone), Err(VaultError::Io { .. })));
}

#[test]
fn a_swap_is_one_change_and_half_of_it_none() {
    let (a, b, c) = (("acme.A.ipn.a", LONG), ("acme.B.ipn.b", LONG), ("acme.C.ipn.c", "text:hush"));
    let mut mounted = Mounted::of(&[a]);
    let place = VaultPlace::Dir(mounted.path().to_owned());
    let (mut watch, document) = VaultWatch::open(place).unwrap();
    assert_eq!(names(&document), ["acme/A a"]);
    mounted.fill(&[a, b]);
    assert!(!watch.changed() && watch.reload_if_changed().unwrap().is_none());
    mounted.point();
    assert!(watch.changed());
    assert_eq!(names(&watch.reload_if_changed().unwrap().unwrap()), ["acme/A a", "acme/B b"]);
    assert!(watch.reload_if_changed().unwrap().is_none());
    mounted.swap(&[a, c]);
    for _ in 0..2 {
        let told = watch.reload_if_changed().unwrap_err().to_string();
        assert!(told.contains("acme.C.ipn.c"), "{told}");
    }
    mounted.swap(&[b]);
    assert_eq!(names(&watch.reload_if_changed().unwrap().unwrap()), ["acme/B b"]);
    std::fs::remove_file(mounted.path().join(DATA_LINK)).unwrap();
    assert!(watch.changed());
}

#[test]
fn files_written_in_place_are_read_when_they_lie_still() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| put(&dir.path().join(name), content);
    put("acme.A.ipn.a", LONG);
    let (mut watch, _) = VaultWatch::open(VaultPlace::Dir(dir.path().to_owned())).unwrap();
    assert!(watch.reload_if_changed().unwrap().is_none());
    std::fs::remove_file(dir.path().join("acme.A.ipn.a")).unwrap();
    assert!(watch.reload_if_changed().unwrap().is_none(), "it may be on its way");
    put("acme.A.ipn.a", &format!("{LONG} or other"));
    assert!(watch.reload_if_changed().unwrap().is_none(), "another may follow");
    put("acme.B.ipn.b", LONG);
    assert!(watch.reload_if_changed().unwrap().is_none(), "yet another may");
    let read = watch.reload_if_changed().unwrap().expect("nothing has moved between two looks");
    assert_eq!(names(&read), ["acme/A a", "acme/B b"]);
    assert!(watch.reload_if_changed().unwrap().is_none());
}

#[test]
fn a_directory_that_is_swapped_all_the_time_is_read_as_one_state() {
    let state = |n: u32| {
        let name = |account: &str| format!("acme.{account}.ipn.k{n}");
        [name("A"), name("B"), name("C")]
    };
    let mut mounted = Mounted::of(&state(0).each_ref().map(|name| (name.as_str(), LONG)));
    let place = VaultPlace::Dir(mounted.path().to_owned());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let was_read = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                match place.read() {
                    Ok(document) => {
                        let keys = names(&document);
                        let of = |key: &String| key.split_once(" k").unwrap().1.to_owned();
                        assert!(
                            keys.len() == 3 && keys.iter().all(|k| of(k) == of(&keys[0])),
                            "{keys:?}"
                        );
                        was_read.store(true, std::sync::atomic::Ordering::Relaxed);
                    }
                    // It was swapped under each look.
                    Err(VaultError::Changing { .. } | VaultError::Io { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        // On a busy machine the reader may come to nothing for a while.
        let begun = std::time::Instant::now();
        let is_late = || begun.elapsed() > std::time::Duration::from_secs(60);
        let was_read = || was_read.load(std::sync::atomic::Ordering::Relaxed);
        for n in 1.. {
            if n > 200 && (was_read() || is_late()) {
                break;
            }
            mounted.swap(&state(n).each_ref().map(|name| (name.as_str(), LONG)));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
        assert!(was_read(), "[time] it was read at least once");
    });
}
