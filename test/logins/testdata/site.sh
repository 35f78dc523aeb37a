#!/bin/sh
# Builds a site in the namespaces that it is started in (mount, network, PID), and serves it until it is killed.
#
# operator 10.1.0.1 -- 10.1.0.2 bastion one 10.2.0.1 -- 10.2.0.2 bastion two 10.3.0.1 -- 10.3.0.11 host
# operator 10.4.0.1 -- 10.4.0.11 and 10.4.0.12 host
#
# Arguments: a directory with the public key "id.pub", the host keys "host" and "bastion", and "sshd.conf", to which the servers write their logs; an
# empty directory, for a file system in memory.
set -eu
dir=$1 memory=$2
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o size=8g tmpfs "$memory" # what is free there counts as the host's disk
for d in etc home root usr/lib/locale usr/local var; do
	mkdir -p "$memory/$d/upper" "$memory/$d/work"
	mount -t overlay overlay -o "lowerdir=/$d,upperdir=$memory/$d/upper,workdir=$memory/$d/work" "/$d"
done
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/systemd/system /run/netns
# Plans must not depend on what runs or is installed on the machine that runs the test.
mount -t tmpfs tmpfs /sys/fs/cgroup
rm -rf /etc/ufw /var/lib/naupegos /usr/local/lib/naupegos
mkdir -p /usr/local/lib/naupegos
tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id

# Locales and PAM. pam_loginuid works only on a host that audits.
localedef -i de_DE -f UTF-8 de_DE.UTF-8
sed -i -e '/pam_loginuid/d' -e '/pam_selinux/d' /etc/pam.d/sshd
grep -q 'pam_env.*user_readenv=1' /etc/pam.d/sshd # reads .pam_environment

# Users.
key=$(cat "$dir/id.pub")
mkdir /etc/ssh/keys /etc/ssh/site
cp "$dir/host" "$dir/bastion" "$dir/sshd.conf" /etc/ssh/site # cases mount over /tmp
user() { # name, shell, sudoers rule, options of the key
	useradd -m -s "$2" -p "$(openssl passwd -6 geheim)" "$1"
	echo "${4-} $key" >"/etc/ssh/keys/$1"
	case ${3-} in
	none) ;;
	asks) printf 'Defaults:%s lecture=always\n%s ALL=(ALL) ALL\n' "$1" "$1" ;;
	tty) printf 'Defaults:%s requiretty\n%s ALL=(ALL) NOPASSWD:ALL\n' "$1" "$1" ;;
	pty*) printf 'Defaults:%s use_pty\n%s ALL=(ALL) %s\n' "$1" "$1" "${3#pty:}ALL" ;;
	prompts) printf 'Defaults:%s passprompt_override, passprompt="Kennwort bitte: ", insults\n%s ALL=(ALL) ALL\n' "$1" "$1" ;;
	logs) printf 'Defaults:%s log_input, log_output\n%s ALL=(ALL) NOPASSWD:ALL\n' "$1" "$1" ;;
	some) printf '%s ALL=(ALL) NOPASSWD:/usr/bin/id\n' "$1" ;;
	*) printf '%s ALL=(ALL) NOPASSWD:ALL\n' "$1" ;;
	esac >>/etc/sudoers.d/site
	case $1 in german*) printf 'LANG=de_DE.UTF-8\nLC_MESSAGES=de_DE.UTF-8\nLANGUAGE=de\n' >"/home/$1/.pam_environment" ;; esac
}
bash=/bin/bash
for u in plain banner denied german; do user $u $bash; done
user asks $bash asks
user german-asks $bash asks
user unlisted $bash none
user german-unlisted $bash none
user some $bash some
user no-tty $bash tty
user german-tty $bash tty
user nologin /usr/sbin/nologin
user german-nologin /usr/sbin/nologin
user shell-false /bin/false
user shell-gone /bin/gone
user dash /bin/dash
user fish /usr/bin/fish
user tcsh /usr/bin/tcsh
user restricted /bin/rbash
user forced $bash all 'command="echo Choose: 1 mail, 2 news"'
user sftp $bash
user rc-prints $bash
printf 'echo "Welcome to production!"\necho "Mind the gap" >&2\n' >/home/rc-prints/.bashrc
user rc-exits $bash
printf 'echo "Maintenance until 8:00"\nexit 3\n' >/home/rc-exits/.bashrc
user rc-waits $bash
printf 'read -p "Press Enter to accept the terms. " x\n' >/home/rc-waits/.bashrc
user rc-fish $bash
printf 'exec fish\n' >/home/rc-fish/.bashrc
user rc-broken $bash
printf 'if true; then\n' >/home/rc-broken/.bashrc
user ssh-rc $bash
mkdir /home/ssh-rc/.ssh
printf 'echo "This is ssh-rc"\n' >/home/ssh-rc/.ssh/rc
user prompts $bash prompts
user pty $bash pty:NOPASSWD:
user pty-asks $bash pty:
user logs $bash logs
user one-session $bash
user umask $bash
printf 'umask 077\nset -eu\nset -o noclobber\n' >/home/umask/.bashrc
user path-gone $bash
printf 'PATH=/nonexistent\n' >/home/path-gone/.bashrc
user home-gone $bash
rm -r /home/home-gone
user german-expired $bash
user expired $bash
user expired-account $bash
user old-password $bash asks
chage -d 0 expired
chage -d 0 german-expired
chage -E 1 expired-account
chage -d 2000-01-01 -M 10 old-password
user jump $bash
user jump-nologin /usr/sbin/nologin
user no-forwarding $bash
user restricted-key $bash all restrict
user old-jump $bash
chage -d 0 old-jump
user not-there $bash
echo "$key" >/etc/ssh/keys/root
echo "command=\"echo 'Please login as the user \\\"ubuntu\\\" rather than the user \\\"root\\\".';echo;sleep 1;exit 142\" $key" >/etc/ssh/keys/root-image
echo 'Authorized use only. Zugriff nur für Befugte.' >/etc/issue.site
echo 'Welcome to a host.' >/etc/motd
chmod 440 /etc/sudoers.d/site
visudo -c >&2

# Networks.
ip link set lo up
for n in one two host; do
	ip netns add $n
	ip -n $n link set lo up
done
link() { # namespace, address, namespace, address
	ip link add left type veth peer name right
	place left "$1" "$2"
	place right "$3" "$4"
}
place() { # link, namespace, address
	if [ "$2" = here ]; then set -- "$1" "" "$3"; else
		ip link set "$1" netns "$2"
		set -- "$1" "-n $2" "$3"
	fi
	new=to-$(echo "$3" | cut -d. -f2)
	ip $2 link set "$1" name "$new"
	ip $2 addr add "$3" dev "$new"
	ip $2 link set "$new" up
}
link here 10.1.0.1/24 one 10.1.0.2/24
link one 10.2.0.1/24 two 10.2.0.2/24
link two 10.3.0.1/24 host 10.3.0.11/24
link here 10.4.0.1/24 host 10.4.0.11/24
ip -n host addr add 10.4.0.12/24 dev to-4

# Servers. The host has mounts of its own.
for n in one two; do
	nsenter --net=/run/netns/$n /usr/sbin/sshd -D -e -f /etc/ssh/site/sshd.conf -h /etc/ssh/site/bastion 2>"$dir/$n.log" &
done
nsenter --net=/run/netns/host unshare --mount --propagation private sh -c 'echo $$ >"$1/host.pid"
	exec /usr/sbin/sshd -D -e -f /etc/ssh/site/sshd.conf -h /etc/ssh/site/host 2>"$1/host.log"' sh "$dir" &
touch "$dir/ready"
wait
