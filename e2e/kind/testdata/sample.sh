# Prints CPU and resident memory of the node daemon, the kubelet and containerd of a node, over a minute.
pid() {
  for f in /proc/[0-9]*/cmdline; do
    case "$(tr '\0' ' ' < "$f" 2> /dev/null)" in $1) f=${f#/proc/}; echo "${f%/*}"; return ;; esac
  done
}
ticks() { # of 10 ms
  read -r all < "/proc/$1/stat"
  set -- ${all##*) }
  echo $((${12} + ${13}))
}
declare -A command=([daemon]="/program *--image-pull-workers*" [kubelet]="*bin/kubelet *" [containerd]="*bin/containerd ") pids before
for name in "${!command[@]}"; do
  pids[$name]=$(pid "${command[$name]}")
  before[$name]=$(ticks "${pids[$name]}")
done
sleep 60
for name in "${!command[@]}"; do
  echo "$name: $(((($(ticks "${pids[$name]}") - before[$name]) * 1000 + 3000) / 6000)) m CPU," $(grep VmRSS "/proc/${pids[$name]}/status")
done
