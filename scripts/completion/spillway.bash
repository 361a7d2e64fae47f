# bash completion for spillway: source this file, or put it where bash-completion looks.
_spillway() {
  local current=${COMP_WORDS[COMP_CWORD]} verb='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) return ;;
      --server) ((i++)) ;;
      -*) ;;
      *) verb=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $verb in
    '') words="up down submit run queue ps describe explain logs events wait cancel preempt checkpoints nodes offers reservations cordon uncordon drain cost report completion version --server --yes --help --version" ;;
    up) words="--foreground --no-worker --reserved-nodes --resources --port --server --yes --help" ;;
    down) words="--keep-jobs --server --yes --help" ;;
    submit) words="--wait --request-id --set -o --output --server --yes --help" ;;
    run) words="--name --cpus --memory --gpus --env --market --workdir --set --detach -o --output --server --yes --help" ;;
    queue|ps) words="-a --all --state --name -n --limit -w --watch -o --output --server --yes --help" ;;
    describe) words="-o --output --server --yes --help" ;;
    explain) words="-o --output --server --yes --help" ;;
    logs) words="-f --follow --attempt --server --yes --help" ;;
    events) words="-f --follow --after -o --output --server --yes --help" ;;
    wait) words="--timeout --server --yes --help" ;;
    cancel) words="--now --reason -o --output --server --yes --help" ;;
    preempt) words="--grace -o --output --server --yes --help" ;;
    checkpoints) words="-o --output --server --yes --help" ;;
    nodes) words="-a --all -o --output --server --yes --help" ;;
    offers) words="--provider -o --output --server --yes --help" ;;
    reservations) words="-o --output --server --yes --help" ;;
    cordon) words="-o --output --server --yes --help" ;;
    uncordon) words="-o --output --server --yes --help" ;;
    drain) words="--grace -o --output --server --yes --help" ;;
    cost) words="--from --to -o --output --server --yes --help" ;;
    report) words="--step --total --metric --server --yes --help" ;;
    completion) words="--server --yes --help" ;;
    version) words="--scheduler -o --output --server --yes --help" ;;
  esac
  if [[ $current == -* || -z $verb ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  elif [[ $verb == submit ]]; then
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ $verb == run ]]; then
    COMPREPLY=($(compgen -c -- "$current"))
  fi
}
complete -o bashdefault -o default -F _spillway spillway
