#!/bin/busybox sh
# The guest's first process: mounts what a Linux system has, runs /command, reports its exit status, powers off.
/bin/busybox --install -s /bin
export PATH=/bin:/payload HOME=/root TERM=dumb USER=root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
chmod 1777 /tmp
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
ulimit -l unlimited
exec >/dev/ttyS0 2>&1 </dev/null
stty -F /dev/ttyS0 raw -echo
echo "TRACER-VM-UP $(uname -r)"
cd /payload
sh /command
printf '\nTRACER-VM-STATUS %d\n' $?
poweroff -f
