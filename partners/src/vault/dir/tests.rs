//! Tests a directory of keys on a real file system, filled as kubelet and others do.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::vault::{VaultPlace, VaultWatch};

const LONG: &str = "text:hush, a secret of 24 bytes or more";

/// A directory as kubelet mounts it: the files in a dated folder, the link `..data` to that folder,
/// and a link for each name.
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

    /// Replaces all files as kubelet does: a new folder, a new link renamed over `..data`, and the
    /// old folder removed.
    fn swap(&mut self, files: &[(&str, &str)]) {
        self.fill(files);
        self.point();
    }

    /// The first half of a swap, which readers must not see.
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

fn error_of(files: &[(&str, &str)]) -> String {
    let mounted = Mounted::of(files);
    let error = read_settled(mounted.path()).unwrap_err();
    let message = format!("{error}");
    assert!(!format!("{message} {error:?}").contains("hush"), "{error:?}");
    message
}

#[test]
fn a_mounted_directory_is_a_vault() {
    let plain = "[[accounts]]\npartner = 'acme'\nmerchant_code = 'SHOP'\nrate_per_s = 9\n\
        constants = { app = '42' }\n[[tokens]]\nname = 'ada'\n\
        sha256 = '5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592'\n";
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
fn all_problems_are_reported_at_once_by_file() {
    let message = error_of(&[
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
             [[tokens]]\nname = 'local'\n\
             sha256 = '5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592'\n\
             [[shops]]\nname = 'web'\naccounts = [{ partner = 'bolt', merchant_code = 'X' }]\n",
        ),
    ]);
    let lines: Vec<_> = message.lines().skip(1).map(str::trim).collect();
    for (line, expected) in lines.iter().zip([
        "README: its name is not that of a key",
        "README: line 1 is not understood",
        "acme.SHOP.ipn.a: key a has 4 bytes, 16 or more are needed",
        "acme.SHOP.ipn.c: neither it nor acme.SHOP.ipn.b has a valid_from",
        "acme.SHOP.ipn.d: key b is there twice",
        "vault.toml: account acme/SHOPP: constant \"a b\"",
        "vault.toml: account acme/SHOPP has no key file",
        "vault.toml: the token name local is reserved",
        "vault.toml: shop web lists account bolt/X",
    ]) {
        assert!(line.starts_with(expected), "{expected}: {line}");
    }
    assert_eq!(lines.len(), 9, "{message}");
}

#[test]
fn a_key_may_be_readable_for_its_group_and_not_for_all() {
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
                let text = error.to_string();
                assert!(!opens && text.contains("acme.SHOP.ipn.a: it has mode 0"), "{text}");
                assert!(text.contains("defaultMode: 0440"), "{text}");
            }
        }
    }
    std::fs::create_dir(dir.path().join("acme.SHOP.ipn.b")).unwrap();
    let message = read_settled(dir.path()).unwrap_err().to_string();
    assert!(message.contains("acme.SHOP.ipn.b: it is not a regular file"), "{message}");
}

#[test]
fn an_empty_or_missing_directory_is_an_error() {
    let mounted = Mounted::of(&[]);
    assert!(matches!(read_settled(mounted.path()), Err(VaultError::Empty { .. })));
    let gone = mounted.path().join("gone");
    assert!(matches!(read_settled(&gone), Err(VaultError::Io { .. })));
}

#[test]
fn a_swap_is_one_change_and_half_a_swap_is_none() {
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
        let message = watch.reload_if_changed().unwrap_err().to_string();
        assert!(message.contains("acme.C.ipn.c"), "{message}");
    }
    mounted.swap(&[b]);
    assert_eq!(names(&watch.reload_if_changed().unwrap().unwrap()), ["acme/B b"]);
    std::fs::remove_file(mounted.path().join(DATA_LINK)).unwrap();
    assert!(watch.changed());
}

#[test]
fn files_written_in_place_are_read_once_they_stop_changing() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, content: &str| put(&dir.path().join(name), content);
    put("acme.A.ipn.a", LONG);
    let (mut watch, _) = VaultWatch::open(VaultPlace::Dir(dir.path().to_owned())).unwrap();
    assert!(watch.reload_if_changed().unwrap().is_none());
    std::fs::remove_file(dir.path().join("acme.A.ipn.a")).unwrap();
    assert!(watch.reload_if_changed().unwrap().is_none(), "the change may not be complete");
    put("acme.A.ipn.a", &format!("{LONG} or other"));
    assert!(watch.reload_if_changed().unwrap().is_none(), "another may follow");
    put("acme.B.ipn.b", LONG);
    assert!(watch.reload_if_changed().unwrap().is_none(), "yet another may follow");
    let read = watch.reload_if_changed().unwrap().expect("nothing has changed between two polls");
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
                    // The directory was swapped during each attempt.
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
