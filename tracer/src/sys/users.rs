//! Users by name and by number.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use thiserror::Error;
use uzers::os::unix::UserExt;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "there is no user {0:?} on this machine; `getent passwd` lists the names, a numeric id works too"
)]
pub struct UnknownUser(pub String);

/// Whom to run a command as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups, the primary one included.
    pub groups: Vec<u32>,
    pub name: OsString,
    pub home: OsString,
    pub shell: OsString,
}

impl User {
    /// Finds `user` by name, else by number. A number without an entry in the
    /// user database is a user with the group of the same number and no other.
    pub fn find(user: &str) -> Result<Self, UnknownUser> {
        let number = user.parse::<u32>().ok();
        let entry = uzers::get_user_by_name(user).or_else(|| uzers::get_user_by_uid(number?));
        if let Some(entry) = entry {
            let gid = entry.primary_group_id();
            let groups = uzers::get_user_groups(entry.name(), gid).unwrap_or_default();
            return Ok(Self {
                uid: entry.uid(),
                gid,
                groups: groups.iter().map(uzers::Group::gid).collect(),
                name: entry.name().to_owned(),
                home: entry.home_dir().as_os_str().to_owned(),
                shell: non_empty(entry.shell().as_os_str().to_owned()),
            });
        }
        // -1 means "leave it" to setuid(2).
        let uid = number
            .filter(|uid| *uid != u32::MAX)
            .ok_or_else(|| UnknownUser(user.to_owned()))?;
        Ok(Self {
            uid,
            gid: uid,
            groups: vec![uid],
            name: OsString::from(user),
            home: OsString::from("/"),
            shell: non_empty(OsString::new()),
        })
    }
}

fn non_empty(shell: OsString) -> OsString {
    if shell.is_empty() {
        OsString::from("/bin/sh")
    } else {
        shell
    }
}

/// The uid that `user`, a name or a number, stands for.
pub fn uid_of(user: &str) -> Result<u32, UnknownUser> {
    User::find(user).map(|u| u.uid)
}

/// Names of users, remembered for a while. A look-up may ask a directory server: not for the
/// thread that reads events.
#[derive(Debug, Default)]
pub struct Names {
    known: FxHashMap<u32, Option<String>>,
    since: Option<Instant>,
}

impl Names {
    /// Users come, go and are renamed.
    const AGE: Duration = Duration::from_secs(300);
    const MOST: usize = 4096;

    /// The name of `uid`, if it has one that is UTF-8.
    pub fn of(&mut self, uid: u32) -> Option<&str> {
        let now = Instant::now();
        let old = self.since.is_none_or(|t| now.duration_since(t) > Self::AGE);
        if old || self.known.len() >= Self::MOST {
            self.known.clear();
            self.since = Some(now);
        }
        let name = self.known.entry(uid).or_insert_with(|| {
            let user = uzers::get_user_by_uid(uid)?;
            Some(user.name().to_str()?.to_owned())
        });
        name.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_find_the_same_user() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(User::find("0").unwrap(), root);
    }

    #[test]
    fn names_are_found_and_remembered() {
        let mut names = Names::default();
        for _ in 0..2 {
            assert_eq!(names.of(0), Some("root"));
            assert_eq!(names.of(4_242_424), None);
        }
        assert_eq!(names.known.len(), 2);
    }

    #[test]
    fn a_number_needs_no_entry_but_a_name_does() {
        let user = User::find("4242424").unwrap();
        assert_eq!(
            (user.uid, user.gid, user.groups),
            (4_242_424, 4_242_424, vec![4_242_424])
        );
        let error = User::find("no such user").unwrap_err();
        assert!(error.to_string().contains("getent"), "{error}");
        assert!(User::find("4294967295").is_err());
        assert!(User::find("-1").is_err());
        assert!(User::find("").is_err());
    }
}
