//! Tools that run beside the workload.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{child::Child, interrupt, lab::Lab, machine, run::Files, tool::Ready};

/// How long a tool may take to begin, and to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A command line with the places filled in.
pub fn fill(words: &[&str], lab: &Lab, files: &Files) -> Result<Vec<OsString>> {
    let filled = |word: &&str| -> Result<OsString> {
        Ok(match *word {
            "{out}" => files.trace.clone().into(),
            "{tracer}" => lab.tracer.clone().into(),
            "{script}" => lab.script.clone().into(),
            "{tag}" => lab.tag.clone().into(),
            "{instance}/trace_pipe" => lab.instance().join("trace_pipe").into(),
            "{cgroup}" => {
                let cgroup = lab.cgroup.clone();
                cgroup
                    .context("it needs a cgroup (v2), and none can be made")?
                    .into()
            }
            word => word.into(),
        })
    };
    words.iter().map(filled).collect()
}

/// Starts them and waits until they have begun.
pub fn start(commands: &[&[&str]], ready: Ready, lab: &Lab, files: &Files) -> Result<Vec<Child>> {
    if matches!(ready, Ready::Instance | Ready::OwnInstance) && !lab.has_tracefs() {
        bail!("there is no tracefs");
    }
    if ready == Ready::Instance {
        lab.make_instance()?;
    }
    let mut children = Vec::new();
    for (words, out) in commands.iter().zip([&files.trace, &files.second]) {
        let argv = fill(words, lab, files)?;
        let (program, args) = argv.split_first().context("an empty command")?;
        // trace-cmd writes its trace itself.
        let out = if ready == Ready::OwnInstance {
            &files.stdout
        } else {
            out
        };
        let stderr = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&files.stderr)?;
        children.push(Child::spawn(
            lab.command(program)
                .args(args)
                .stdout(File::create(out)?)
                .stderr(stderr),
        )?);
    }

    let pids: Vec<_> = children.iter().map(Child::pid).collect();
    let begun = || match ready {
        Ready::Settled | Ready::Instance => true,
        Ready::Links(count) => pids.iter().all(|pid| machine::links(*pid) >= count),
        Ready::OwnInstance => {
            let readers: usize = pids
                .iter()
                .map(|pid| machine::descendants(*pid).len())
                .sum();
            lab.instance_is_on() && readers >= machine::cpus()
        }
    };
    let deadline = Instant::now() + LIMIT;
    loop {
        if !machine::settle(&pids, Duration::from_millis(200), LIMIT)? {
            bail!("it ended before the workload began");
        }
        if begun() {
            return Ok(children);
        }
        if Instant::now() > deadline {
            bail!("it had not begun after {} s", LIMIT.as_secs());
        }
    }
}

/// Lets them catch up, ends them, and says what CPU time they used in all.
pub fn stop(children: &mut [Child], mut look: impl FnMut()) -> Result<Duration> {
    let mut pids: Vec<_> = children.iter().map(Child::pid).collect();
    for head in pids.clone() {
        pids.extend(machine::descendants(head));
    }
    machine::settle(&pids, Duration::from_millis(100), Duration::from_secs(20))?;
    look();
    for child in &mut *children {
        child.signal(libc::SIGINT);
    }
    let mut total = Duration::ZERO;
    for child in children {
        let ended = child.wait(LIMIT, &mut look);
        interrupt::check()?;
        total += ended.context("it did not end on SIGINT")?.cpu;
    }
    Ok(total)
}
