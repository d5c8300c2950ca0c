use proptest::prelude::*;

use super::*;

const ID: &str = "3f4e1c0a9b8d7c6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e";
const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";

/// Unit, user unit, slice, container, runtime, pod; empty where there is none.
type Row = [&'static str; 7];

/// `ID`, `UID` and `U_D` (the UID with underscores) stand for the constants.
#[rustfmt::skip]
const PATHS: &[Row] = &[
    // systemd
    ["/", "", "", "", "", "", ""],
    ["", "", "", "", "", "", ""],
    ["/init.scope", "init.scope", "", "", "", "", ""],
    ["/system.slice/ssh.service", "ssh.service", "", "system.slice", "", "", ""],
    ["/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", "", "system-getty.slice", "", "", ""],
    ["/user.slice/user-1000.slice/session-3.scope", "session-3.scope", "", "user-1000.slice", "", "", ""],
    ["/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.slice/vte-spawn-1.scope", "user@1000.service", "vte-spawn-1.scope", "user-1000.slice", "", "", ""],
    ["/user.slice/user-1000.slice/user@1000.service/init.scope", "user@1000.service", "init.scope", "user-1000.slice", "", "", ""],
    ["/system.slice/build.service/payload/job-7.scope", "build.service", "", "system.slice", "", "", ""],
    ["/system.slice/_cgroup.service", "cgroup.service", "", "system.slice", "", "", ""],
    ["/system.slice/dev-hugepages.mount", "dev-hugepages.mount", "", "system.slice", "", "", ""],
    ["/system.slice/.service", "", "", "system.slice", "", "", ""],
    ["/machine.slice", "", "", "machine.slice", "", "", ""],
    ["/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", "machine-qemu\\x2d1\\x2dvm.scope", "", "machine.slice", "", "", ""],
    // docker
    ["/docker/ID", "", "", "", "ID", "docker", ""],
    ["/docker/ID/init", "", "", "", "ID", "docker", ""],
    ["/system.slice/docker-ID.scope", "docker-ID.scope", "", "system.slice", "ID", "docker", ""],
    ["/system.slice/docker.service", "docker.service", "", "system.slice", "", "", ""],
    ["/my-parent/ID", "", "", "", "ID", "", ""],
    ["/docker/ID/kubelet/kubepods/burstable/podUID/ID", "", "", "", "ID", "", "UID"],
    ["/docker/ID/system.slice/nginx.service", "nginx.service", "", "system.slice", "ID", "docker", ""],
    // podman
    ["/machine.slice/libpod-ID.scope/container", "libpod-ID.scope", "", "machine.slice", "ID", "podman", ""],
    ["/machine.slice/libpod-conmon-ID.scope", "libpod-conmon-ID.scope", "", "machine.slice", "", "", ""],
    ["/machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope", "libpod-ID.scope", "", "machine-libpod_pod_ID.slice", "ID", "podman", ""],
    ["/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container", "user@1000.service", "libpod-ID.scope", "user-1000.slice", "ID", "podman", ""],
    ["/system.slice/web.service/libpod-payload-ID", "web.service", "", "system.slice", "ID", "podman", ""],
    ["/libpod_parent/libpod-ID", "", "", "", "ID", "podman", ""],
    // containerd, nerdctl
    ["/default/ID", "", "", "", "ID", "", ""],
    ["/system.slice/nerdctl-ID.scope", "nerdctl-ID.scope", "", "system.slice", "ID", "containerd", ""],
    ["/system.slice/containerd.service", "containerd.service", "", "system.slice", "", "", ""],
    // Kubernetes
    ["/kubepods/besteffort/podUID/ID", "", "", "", "ID", "", "UID"],
    ["/kubepods/podUID/ID", "", "", "", "ID", "", "UID"],
    ["/kubepods/burstable/pod0123456789abcdef0123456789abcdef/ID", "", "", "", "ID", "", "0123456789abcdef0123456789abcdef"],
    ["/kubepods/burstable/podUID/crio-ID", "", "", "", "ID", "cri-o", "UID"],
    ["/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_D.slice/cri-containerd-ID.scope", "cri-containerd-ID.scope", "", "kubepods-burstable-podU_D.slice", "ID", "containerd", "UID"],
    ["/kubepods.slice/kubepods-podU_D.slice/crio-ID.scope/container", "crio-ID.scope", "", "kubepods-podU_D.slice", "ID", "cri-o", "UID"],
    ["/kubepods.slice/kubepods-podU_D.slice/crio-conmon-ID.scope", "crio-conmon-ID.scope", "", "kubepods-podU_D.slice", "", "", "UID"],
    ["/kubepods.slice/kubepods-podU_D.slice/docker-ID.scope", "docker-ID.scope", "", "kubepods-podU_D.slice", "ID", "docker", "UID"],
    ["/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-podU_D.slice/cri-containerd-ID.scope", "cri-containerd-ID.scope", "", "kubelet-kubepods-besteffort-podU_D.slice", "ID", "containerd", "UID"],
    ["/system.slice/containerd.service/kubepods-burstable-podU_D.slice:cri-containerd:ID", "containerd.service", "", "system.slice", "ID", "containerd", "UID"],
    ["/kubepods.slice/kubepods-burstable.slice", "", "", "kubepods-burstable.slice", "", "", ""],
    // others
    ["/lxc.payload.web/system.slice/ssh.service", "ssh.service", "", "system.slice", "web", "lxc", ""],
    ["/lxc/web", "", "", "", "web", "lxc", ""],
    ["/lxc.monitor.web", "", "", "", "", "", ""],
    ["/machine.slice/systemd-nspawn@web.service/payload", "systemd-nspawn@web.service", "", "machine.slice", "web", "systemd-nspawn", ""],
    ["/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234567890", "", "", "", "0123456789abcdef0123456789abcdef-1234567890", "ecs", ""],
    ["/ecs/task/ID", "", "", "", "ID", "", ""],
    // What only looks like it
    ["/docker/3f4e1c0a9b8d", "", "", "", "", "", ""],
    ["/podcast/podium", "", "", "", "", "", ""],
    ["/system.slice/podman.service", "podman.service", "", "system.slice", "", "", ""],
    ["/a-podU_D.slice", "", "", "a-podU_D.slice", "", "", ""],
];

fn real(text: &str) -> String {
    text.replace("U_D", &UID.replace('-', "_"))
        .replace("UID", UID)
        .replace("ID", ID)
}

#[test]
fn every_known_habit_is_understood() {
    for [path, unit, user_unit, slice, container, runtime, pod] in PATHS {
        let path = real(path);
        let owner = Owner::of(path.as_bytes());
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let found = [
            owner.unit.map(text),
            owner.user_unit.map(text),
            owner.slice.map(text),
            owner.container.as_ref().map(|c| text(c.id)),
            owner
                .container
                .as_ref()
                .and_then(|c| c.runtime)
                .map(str::to_owned),
            owner.pod.as_deref().map(text),
        ]
        .map(Option::unwrap_or_default);
        let right = [unit, user_unit, slice, container, runtime, pod].map(|s| real(s));
        assert_eq!(found, right, "{path}");
        assert_eq!(
            owner.is_unknown(),
            right.iter().all(String::is_empty),
            "{path}"
        );
    }
}

#[test]
fn names_that_are_not_utf_8_are_kept() {
    let owner = Owner::of(b"/system.slice/\xff.service");
    assert_eq!(owner.unit, Some(&b"\xff.service"[..]));
}

proptest! {
    #[test]
    fn no_path_is_too_odd(path in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Owner::of(&path);
    }

    #[test]
    fn nor_one_of_familiar_parts(parts in proptest::collection::vec(
        prop_oneof![
            Just("docker"), Just("pod"), Just(":"), Just("-pod"), Just("kubepods"), Just(".slice"), Just(".scope"),
            Just("libpod-"), Just("/"), Just("lxc"), Just(ID), Just(UID), Just("systemd-nspawn@"), Just(".service"),
        ], 0..12)) {
        let path = parts.concat();
        let owner = Owner::of(path.as_bytes());
        if let Some(c) = owner.container {
            prop_assert!(!c.id.is_empty());
        }
    }
}
