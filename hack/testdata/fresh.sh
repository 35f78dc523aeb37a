# Runs in name spaces of its own, as process 1. $1: how to mount cgroups. Standard input: hack/fresh.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
for d in /var/lib /var/tmp /run /mnt; do mount -t tmpfs tmpfs $d; done
mkdir -p /run/mount /mnt/clone/hack /mnt/clone/bin /mnt/tmp /mnt/set
cat >/mnt/clone/hack/fresh
chmod +x /mnt/clone/hack/fresh
mount --bind /mnt/tmp /tmp
umount -R -l /sys
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/one
mount $1 none /sys/fs/cgroup/one
unset NAUPEGOS_OPENSTACK_ROOT
cd /mnt/clone

# what is ours
mkdir -p /sys/fs/cgroup/one/naupegos/demo-0badc0de/cp-1
sleep 1001 & echo $! >/sys/fs/cgroup/one/naupegos/demo-0badc0de/cp-1/cgroup.procs
bed=/var/lib/naupegos/openstack
mkdir -p $bed/run /var/lib/naupegos/local/demo-0badc0de /var/lib/naupegos/images
setsid sh -c 'sleep 1002 & sleep 1003; true' & # a leader with workers
leader=$!
until pgrep -x -s $leader sleep >/dev/null; do sleep 0.1; done
start=$(sed 's/.*) //' /proc/$leader/stat | cut -d' ' -f20)
boot=$(cat /proc/sys/kernel/random/boot_id)
echo "{\"pid\":$leader,\"start\":$start,\"boot\":\"$boot\"}" >$bed/run/nova-api.json
cp "$(command -v sleep)" bin/naupegos
bin/naupegos 1004 &
mkdir -p /var/tmp/naupegos-e2e-1/mnt /run/naupegos
mount -t tmpfs tmpfs /var/tmp/naupegos-e2e-1/mnt
ip link set lo up
ip address add 192.0.2.10/32 dev lo
echo 192.0.2.10 >$bed/run/address
ip link add nau0badc0de type bridge
ip link add nau0badc0de0011 type veth peer name host0
ip link add nauos0badc0de type bridge
ip netns add naugw-1-hub
nft add table inet naupegos_0badc0de
nft add table ip naupegos_os_0badc0de
echo 1 >/proc/sys/net/ipv4/ip_forward
for s in instances watches; do
  echo 99999999 >/mnt/set/$s
  mount --bind /mnt/set/$s /proc/sys/fs/inotify/max_user_$s
done

# directories that only look alike, or are in use
ip link add nautilus type bridge
ip link add nau0badc0 type bridge
ip netns add naughty
nft add table inet naupegos_mine
nft add table inet filter
mkdir -p /var/tmp/naupegos /var/tmp/naupegos-e2e /var/lib/naupegos/other /sys/fs/cgroup/one/naupegos2
sleep 1005 & # in the clone, as a user's shell
echo "{\"pid\":$!,\"start\":1,\"boot\":\"$boot\"}" >$bed/run/old.json # the number of a process that is gone
sleep 1006 & echo $! >/sys/fs/cgroup/one/naupegos2/cgroup.procs
sleep 1007 </mnt/clone/bin/naupegos &

look() {
  pgrep -af 'sleep|naupegos' | sed 's/^[0-9]* //' | grep -v pgrep | grep -v 'mount -t' | sort
  ip -o link | sed -E 's/^[0-9]+: ([^:@]+).*/link \1/' | sort
  ip -o -4 address show dev lo | awk '{print "address", $4}'
  nft list tables; ip netns list
  find /sys/fs/cgroup/one -name 'naupegos*' | sort
  find /var/lib/naupegos /var/tmp /run -mindepth 1 -maxdepth 1 | sort
  cat /proc/sys/net/ipv4/ip_forward
}
for seconds in 1001 1002 1003 1004 1005 1006 1007; do # a shell's child is the shell until it has become the program
  until pgrep -f "^[a-z/]*(sleep|naupegos) $seconds\$" >/dev/null; do sleep 0.05; done
done
before=$(look)
hack/fresh --dry-run >/mnt/would
[ "$(look)" = "$before" ] || { echo "the dry run changed something:"; diff <(echo "$before") <(look); exit 1; }
! hack/fresh 2>/dev/null || { echo "it ran without --yes"; exit 1; }
hack/fresh --yes >/mnt/did
diff <(sed 's/would take/takes/' /mnt/would) /mnt/did || { echo "the dry run said something else than was done"; exit 1; }
look >/mnt/after
diff - /mnt/after <<'END' || { echo "that is not what should be left"; cat /mnt/did; exit 1; }
sleep 1005
sleep 1006
sleep 1007
link lo
link nau0badc0
link nautilus
address 127.0.0.1/8
table inet naupegos_mine
table inet filter
naughty
/sys/fs/cgroup/one/naupegos2
/run/mount
/run/netns
/var/lib/naupegos/other
/var/tmp/naupegos
/var/tmp/naupegos-e2e
0
END
[ "$(cat /mnt/set/instances)" = 128 ] && [ "$(cat /mnt/set/watches)" -lt 1048577 ]
again=$(hack/fresh --yes)
[ -z "$again" ] || { echo "there was something left: $again"; exit 1; }
echo "as it should be"
