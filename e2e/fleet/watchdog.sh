# Waits until the owner of the fleet in "$1" ends, then ends the fleet. The owner holds the other end of our input.
read -r _
dir=$1
[ -n "$dir" ] && [ -d "$dir" ] || exit 0
# A process is of this fleet if a pid file in the folder names it and its command line names the folder; a pid alone
# may have been given to another program meanwhile.
kill_all() {
  for file in "$dir"/pids/*.pid "$dir"/clusters/*/pids/*.pid; do
    [ -f "$file" ] || continue
    pid=$(cat "$file")
    if [ -r "/proc/$pid/cmdline" ]; then line=$(tr '\0' ' ' <"/proc/$pid/cmdline"); else line=$(ps -o args= -p "$pid" 2>/dev/null); fi
    case $line in *"$dir"*) kill -9 "$pid" 2>/dev/null ;; esac
  done
  # Components that kwokctl started, but was killed before it wrote their pid files.
  for line in $(grep -la "^$dir/clusters/" /proc/[0-9]*/cmdline 2>/dev/null); do
    pid=${line#/proc/}
    kill -9 "${pid%/cmdline}" 2>/dev/null
  done
}
# Twice: the first round ends kwokctl, which may have started one more component meanwhile.
kill_all
sleep 0.3
kill_all
rm -rf "$dir" 2>/dev/null || { sleep 0.5; rm -rf "$dir"; }
