#!/bin/busybox sh
# The guest's first process, where systemd is to be the next: moves to a file system of which systemd can make others,
# with a unit that runs /command, reports its exit status, and powers off.
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mkdir /new
mount -t tmpfs new /new
cp -a /bin /command /etc /lib* /payload /root /sbin /usr /new
cd /new
mkdir -p dev proc run sys tmp etc/systemd/system/multi-user.target.wants
cat >etc/systemd/system/tests.service <<END
[Unit]
After=basic.target
[Service]
Type=oneshot
WorkingDirectory=/payload
Environment=PATH=/bin:/payload HOME=/root TERM=dumb USER=root
StandardOutput=file:/dev/ttyS0
StandardError=file:/dev/ttyS0
ExecStart=/bin/sh -c 'stty -F /dev/ttyS0 raw -echo; echo "TRACER-VM-UP \$\$(uname -r) with systemd"; sh /command; printf "\\nTRACER-VM-STATUS %%d\\n" \$\$?; poweroff -f'
END
ln -s ../tests.service etc/systemd/system/multi-user.target.wants
ln -s /lib/systemd/system/multi-user.target etc/systemd/system/default.target
mount --move /dev dev
# Services that are to fail would be told of there, between the tests' results.
mount --bind dev/null dev/console
exec switch_root /new /lib/systemd/systemd --log-target=kmsg --log-level=err --show-status=no
