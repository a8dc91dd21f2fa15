#!/bin/sh
# As mpirun.sh, with MPICH.
#
# usage: mpiexec.sh MPICH_FOLDER KEYS PROVIDER_FOLDER HOSTS COMMAND...        HOSTS as for mpiexec -hosts, and in order
set -eu

mpich=$1 keys=$2 provider=$3 hosts=$4
shift 4

# Its starter takes a program, but no options for it.
ssh=/tmp/mpiexec-ssh
cat >$ssh <<EOF
#!/bin/sh
exec ssh -i "$keys/id" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "\$@"
EOF
chmod 755 $ssh
export HOME=/tmp
exec "$mpich/bin/mpiexec" -hosts "$hosts" -iface eth0 -launcher ssh -launcher-exec $ssh -bind-to none \
	-genv FI_PROVIDER_PATH "$provider" -genv FI_PROVIDER ibrelk -genv FI_IBRELK_MODE "$FI_IBRELK_MODE" "$@"
