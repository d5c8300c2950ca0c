//! Starts the command, held before its exec until the sources watch it.
//!
//! The child is what the command would have been without tracer: same process
//! group, terminal, streams, signal mask and ignored signals, no file
//! descriptor more. `std::process::Command` cannot hold a child, so this forks
//! by itself; everything that the child needs is prepared before the fork, and
//! between fork and exec it makes async-signal-safe calls only.

mod child;
mod error;
mod find;

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

pub use child::{Child, Ended, shell_code};
pub use error::{LaunchError, Step};

use crate::sys::signals::{self, Undisturbed};
use crate::sys::users::User;

/// Exit status of a child that tracer left before it was released. Nobody
/// waits for it then, except that a shell may.
const ABANDONED: i32 = 125;

/// What the child reads from its gate: that it is to run, or to end.
const GO: u8 = 1;
const LEAVE: u8 = 0;

/// A command that can be started.
#[derive(Debug)]
pub struct Command {
    name: OsString,
    /// Files to try, in this order.
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    user: Option<User>,
}

/// A command that waits before its exec. Dropped, it ends without running.
#[derive(Debug)]
pub struct Held {
    name: OsString,
    child: Child,
    gate: Gate,
    errors: PipeReader,
}

/// What the child waits at.
///
/// That its end is closed would tell the child only when tracer is no more: another child
/// that is held has a copy of the end if it was forked between the pipe and the fork.
#[derive(Debug)]
struct Gate(PipeWriter);

impl Drop for Gate {
    fn drop(&mut self) {
        // A child that has gone already reads no more, one that has ended needs no word.
        let _ = self.0.write_all(&[LEAVE]);
    }
}

/// A command that was let go and is on its way into exec.
#[derive(Debug)]
pub struct Opened {
    name: OsString,
    child: Child,
    errors: PipeReader,
}

impl Command {
    /// Finds the program of `argv` as execvp(3) does, by the `PATH` of now.
    ///
    /// # Errors
    /// Not found, not executable, a NUL inside an argument; with `user`, not root.
    pub fn resolve(argv: &[OsString], user: Option<User>) -> Result<Self, LaunchError> {
        let name = argv.first().ok_or(LaunchError::NoCommand)?.clone();
        // SAFETY: geteuid has no preconditions.
        if user.is_some() && unsafe { libc::geteuid() } != 0 {
            return Err(LaunchError::NotRoot);
        }
        let programs = find::programs(&name, std::env::var_os("PATH").as_deref())?;
        let argv = argv.iter().map(|a| c_string(a)).collect::<Result<_, _>>()?;
        let mut env = environment();
        if let Some(user) = &user {
            for (key, value) in [
                ("HOME", &user.home),
                ("SHELL", &user.shell),
                ("USER", &user.name),
                ("LOGNAME", &user.name),
            ] {
                let mut entry = OsString::from(key);
                entry.push("=");
                env.retain(|e| !e.to_bytes().starts_with(entry.as_bytes()));
                entry.push(value);
                env.push(c_string(&entry)?);
            }
        }
        Ok(Self {
            name,
            programs,
            argv,
            env,
            user,
        })
    }

    /// The file that will most likely run.
    pub fn program(&self) -> &OsStr {
        self.programs
            .first()
            .map_or(&self.name, |p| OsStr::from_bytes(p.to_bytes()))
    }

    /// Forks; the child waits for [`Held::release`].
    pub fn hold(&self) -> io::Result<Held> {
        let (gate_out, gate_in) = io::pipe()?;
        let (errors_out, errors_in) = io::pipe()?;
        let mut image = Image::new(self);
        // No signal may find the child with a handler of tracer's.
        let undisturbed = Undisturbed::begin();
        // SAFETY: the child only makes async-signal-safe calls and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            image.run(gate_out.as_fd(), gate_in.as_fd(), errors_in.as_fd());
        }
        let error = io::Error::last_os_error();
        drop(undisturbed);
        if pid < 0 {
            return Err(error);
        }
        let gate = Gate(gate_in);
        Ok(Held {
            name: self.name.clone(),
            child: Child::adopt(pid)?,
            gate,
            errors: errors_out,
        })
    }
}

impl Held {
    /// The command's pid, in tracer's own PID namespace.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Lets the command go and waits until its exec has failed or no longer
    /// can; the kernel may still be loading the program then.
    ///
    /// # Errors
    /// The exec's, or that of a change of user; the child has been reaped then.
    pub fn release(self) -> Result<Child, LaunchError> {
        self.open()?.finish()
    }

    /// Lets the command go; who traces it with ptrace must serve its stops
    /// until [`Opened::finish`] would not wait.
    pub fn open(mut self) -> Result<Opened, LaunchError> {
        // EPIPE: a signal ended the child while it waited, which its status will tell.
        if let Err(error) = self.gate.0.write_all(&[GO])
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(LaunchError::Start(error));
        }
        Ok(Opened {
            name: self.name,
            child: self.child,
            errors: self.errors,
        })
    }
}

impl Opened {
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits until the exec has succeeded or failed; then the child has been
    /// reaped. A child that a signal ended meanwhile counts as started; its
    /// status tells.
    pub fn finish(mut self) -> Result<Child, LaunchError> {
        if let Err(error) = self.outcome() {
            if !matches!(error, LaunchError::Start(_)) {
                self.child.wait().map_err(LaunchError::Start)?;
            }
            return Err(error);
        }
        Ok(self.child)
    }

    /// The same for a child that another thread reaps.
    pub fn finish_unreaped(mut self) -> Result<Child, LaunchError> {
        self.outcome().map(|()| self.child)
    }

    fn outcome(&mut self) -> Result<(), LaunchError> {
        let mut report = [0; 8];
        match self.errors.read_exact(&mut report) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(LaunchError::Start(error)),
            Ok(()) => {
                let [step, _, _, _, errno @ ..] = report;
                let errno = i32::from_ne_bytes(errno);
                Err(LaunchError::in_child(&self.name, step, errno))
            }
        }
    }
}

/// What the child needs, ready to be used without an allocation.
struct Image<'a> {
    programs: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    /// `/bin/sh`, a place for the program, the arguments.
    script: Vec<*const c_char>,
    env: Vec<*const c_char>,
    user: Option<&'a User>,
}

impl<'a> Image<'a> {
    fn new(command: &'a Command) -> Self {
        let pointers = |list: &'a [CString]| list.iter().map(|s| s.as_ptr());
        let null = std::iter::once(std::ptr::null());
        let args = command.argv.get(1..).unwrap_or_default();
        Self {
            programs: pointers(&command.programs).collect(),
            argv: pointers(&command.argv).chain(null.clone()).collect(),
            script: [c"/bin/sh".as_ptr(), std::ptr::null()]
                .into_iter()
                .chain(pointers(args))
                .chain(null.clone())
                .collect(),
            env: pointers(&command.env).chain(null).collect(),
            user: command.user.as_ref(),
        }
    }

    /// The child, from fork to exec.
    fn run(&mut self, gate: BorrowedFd<'_>, gate_in: BorrowedFd<'_>, errors: BorrowedFd<'_>) -> ! {
        signals::restore_in_child();
        // SAFETY: our copy of the write end, which would keep the gate from
        // closing when tracer dies; nothing uses it after this.
        unsafe { libc::close(gate_in.as_raw_fd()) };
        if !wait_at(gate) {
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(ABANDONED) };
        }
        let (step, errno) = match self.user.map_or(Ok(()), become_user) {
            Ok(()) => (Step::Exec, self.exec()),
            Err(failed) => failed,
        };
        let mut report = [0; 8];
        report[0] = step as u8;
        report[4..].copy_from_slice(&errno.to_ne_bytes());
        // SAFETY: writes 8 bytes that are there, and ends this process.
        unsafe {
            libc::write(errors.as_raw_fd(), report.as_ptr().cast(), report.len());
            libc::_exit(127)
        }
    }

    /// Returns only if it fails, with the errno that execvp would give.
    fn exec(&mut self) -> i32 {
        let mut result = libc::ENOENT;
        for program in &self.programs {
            // SAFETY: the strings end in NUL, the lists in a null pointer; all
            // of them were made before the fork and are alive.
            unsafe { libc::execve(*program, self.argv.as_ptr(), self.env.as_ptr()) };
            match errno() {
                libc::ENOEXEC => {
                    // A script without `#!`; the list has a place for it.
                    if let Some(place) = self.script.get_mut(1) {
                        *place = *program;
                    }
                    // SAFETY: as above.
                    unsafe {
                        libc::execve(c"/bin/sh".as_ptr(), self.script.as_ptr(), self.env.as_ptr())
                    };
                    return errno();
                }
                libc::EACCES => result = libc::EACCES,
                libc::ENOENT | libc::ENOTDIR => {}
                errno => return errno,
            }
        }
        result
    }
}

/// The last error of this thread; async-signal-safe.
fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Waits for the byte that lets us go; false: it is another one, or tracer has ended.
fn wait_at(gate: BorrowedFd<'_>) -> bool {
    let mut byte = 0_u8;
    loop {
        // SAFETY: reads one byte into a variable of one byte.
        match unsafe { libc::read(gate.as_raw_fd(), (&raw mut byte).cast(), 1) } {
            1 => return byte == GO,
            -1 if errno() == libc::EINTR => {}
            _ => return false,
        }
    }
}

/// Gives up root for `user`, in the one order that works.
fn become_user(user: &User) -> Result<(), (Step, i32)> {
    let check = |step, result| {
        if result == 0 {
            Ok(())
        } else {
            Err((step, errno()))
        }
    };
    let (uid, gid) = (user.uid, user.gid);
    // SAFETY: raw system calls, as the C library's wrappers would signal
    // threads that this process does not have; the list of groups is alive.
    unsafe {
        check(
            Step::Groups,
            libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()),
        )?;
        check(Step::Gid, libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(Step::Uid, libc::syscall(libc::SYS_setresuid, uid, uid, uid))
    }
}

fn c_string(s: &OsStr) -> Result<CString, LaunchError> {
    CString::new(s.as_bytes()).map_err(|_| LaunchError::Nul(s.to_owned()))
}

/// The environment as it lies in memory: entries without `=` count too, which
/// `std::env` leaves out.
fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: a list of strings that a null pointer ends, or null itself.
    // Nothing in tracer changes the environment (set_var is unsafe).
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(CStr::from_ptr(*at).to_owned());
            at = at.add(1);
        }
    }
    entries
}

#[cfg(test)]
mod tests;
