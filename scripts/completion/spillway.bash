# bash completion for spillway: source this file, or put it where bash-completion looks.
_spillway() {
  local current=${COMP_WORDS[COMP_CWORD]} verb='' words='' fixed='' kind='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) return ;;
      --server) ((i++)) ;;
      -*) ;;
      *) verb=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $verb in
    '') words="up down submit run queue ps describe explain logs events wait cancel preempt pause resume update checkpoints nodes offers reservations cordon uncordon drain secrets cost report backup completion version --server --yes --help --version" ;;
    up) words="--foreground --no-worker --reserved-nodes --resources --port --server --yes --help" ;;
    down) words="--keep-jobs --server --yes --help" ;;
    submit) words="--wait --hold --array --parallel --deadline --expect --request-id --set -o --output --server --yes --help" kind=files ;;
    run) words="--name --cpus --memory --gpus --env --market --workdir --set --detach -o --output --server --yes --help" kind=commands ;;
    queue|ps) words="-a --all --state --name --tasks -n --limit -w --watch -o --output --server --yes --help" ;;
    describe) words="-o --output --server --yes --help" fixed="node last" kind=jobs ;;
    explain) words="-o --output --server --yes --help" fixed="last" kind=jobs ;;
    logs) words="-f --follow --attempt --member --server --yes --help" fixed="last" kind=jobs ;;
    events) words="-f --follow --after -o --output --server --yes --help" fixed="last" kind=jobs ;;
    wait) words="--timeout --server --yes --help" fixed="last" kind=jobs ;;
    cancel) words="--now --reason -o --output --server --yes --help" fixed="last" kind=jobs ;;
    preempt) words="--grace -o --output --server --yes --help" fixed="last" kind=jobs ;;
    pause) words="-o --output --server --yes --help" fixed="last" kind=jobs ;;
    resume) words="-o --output --server --yes --help" fixed="last" kind=jobs ;;
    update) words="--priority --parallel --deadline -o --output --server --yes --help" fixed="last" kind=jobs ;;
    checkpoints) words="--step --shard-size --keep-last --keep-best --metric --maximize --keep-every --new-key-file --keep-old --dry-run -o --output --server --yes --help" fixed="list show verify export import prune diff rewrap last" kind=jobs ;;
    nodes) words="-a --all -o --output --server --yes --help" ;;
    offers) words="--provider -o --output --server --yes --help" ;;
    reservations) words="-o --output --server --yes --help" ;;
    cordon) words="-o --output --server --yes --help" kind=nodes ;;
    uncordon) words="-o --output --server --yes --help" kind=nodes ;;
    drain) words="--grace -o --output --server --yes --help" kind=nodes ;;
    secrets) words="--file --env -o --output --server --yes --help" fixed="set list rm" ;;
    cost) words="--from --to -o --output --server --yes --help" fixed="report" ;;
    report) words="--step --total --metric --server --yes --help" fixed="progress completed" ;;
    backup) words="-o --output --server --yes --help" ;;
    completion) words="--server --yes --help" fixed="bash zsh jobs nodes" ;;
    version) words="--scheduler -o --output --server --yes --help" ;;
  esac
  if [[ $current == -* || -z $verb ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  if [[ ${COMP_WORDS[COMP_CWORD - 1]} == node ]]; then fixed='' kind=nodes; fi
  case $kind in
    files) COMPREPLY=($(compgen -f -- "$current")) ;;
    commands) COMPREPLY=($(compgen -c -- "$current")) ;;
    jobs|nodes)
      # Not of another scheduler than the one that is named on the line.
      if [[ " ${COMP_WORDS[*]} " != *' --server'* ]]; then fixed+=" $(spillway completion "$kind" 2>/dev/null)"; fi
      COMPREPLY=($(compgen -W "$fixed" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$fixed" -- "$current")) ;;
  esac
}
complete -o bashdefault -o default -F _spillway spillway
