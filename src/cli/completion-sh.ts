import { namesCommand, optionsAt, placed, type CommandTree, type OptionOf, type Placed } from "./completion.ts";

/** For bash 3.2 and newer. */
export function bash(tree: CommandTree): string {
  return `${words(tree)}
_berth() {
  local line=\${COMP_LINE:0:COMP_POINT} current reply typed word words
  read -ra typed <<<"$line"
  case $line in *[[:space:]]) typed+=("") ;; esac
  current=\${typed[\${#typed[@]}-1]}
  if reply=$(_berth_words "$current" "\${typed[@]:1:\${#typed[@]}-2}"); then
    # It is known what may stand there, and no file may. Before bash 4 nobody can say so.
    compopt +o default 2>/dev/null
  fi
  # Names come from the service: compgen -W would expand them, and run what is written in them.
  read -r -d "" -a words <<<"$reply"
  COMPREPLY=()
  for word in "\${words[@]}"; do
    case $word in "$current"*) COMPREPLY+=("$(printf %q "$word")") ;; esac
  done
  # Where a colon separates words, only what follows the last one may be given back.
  case $COMP_WORDBREAKS in *:*)
    for reply in "\${!COMPREPLY[@]}"; do COMPREPLY[reply]=\${COMPREPLY[reply]#"\${current%"\${current##*:}"}"}; done
  esac
}
complete -o default -F _berth berth
`;
}

/** The script for zsh. */
export function zsh(tree: CommandTree): string {
  return `${words(tree)}
_berth() {
  local found
  if found=($(_berth_words "\${words[CURRENT]}" "\${(@)words[2,CURRENT-1]}")); then compadd -a found; else _files; fi
}
compdef _berth berth
`;
}

/** A function of both shells: prints the words that may follow; fails where anything may follow, such as a file. */
function words(tree: CommandTree): string {
  const all = placed(tree);
  const valued = all.flatMap(({ command }) => command.options).filter(({ takesValue }) => takesValue);
  const flags = [...new Set(valued.flatMap(flagsOf))];
  const choices = new Map(
    valued.filter((option) => option.choices.length > 0).map((option) => [flagsOf(option).join("|"), option.choices]),
  );
  return `# berth: completion; written by \`berth completion\`.
_berth_words() {
  local current=$1 place="" option="" word
  shift
  for word in "$@"; do
    if [ -n "$option" ]; then option=""; continue; fi
    case $word in
      ${flags.join("|")}) option=$word ;;
      -*) ;;
      *) place="$place $word" ;;
    esac
  done
  case $option in
${[...choices].map(([pattern, values]) => `    ${pattern}) echo ${values.join(" ")}; return ;;\n`).join("")}    ?*) return 1 ;;
  esac
  case $current in -*)
    case "$place " in
${all
  .toReversed()
  .map((one) => `      ${pathPattern(one)}) echo ${optionsAt(tree, one.command).flatMap(flagsOf).join(" ")} ;;\n`)
  .join("")}    esac
    return ;;
  esac
  case $place in
${all
  .flatMap(wordCases)
  .map((line) => `    ${line}\n`)
  .join("")}    *) return 1 ;;
  esac
  return 0
}`;
}

function flagsOf({ short, long }: OptionOf): string[] {
  return [short, long].filter((flag) => flag !== undefined);
}

function pathPattern({ path }: Placed): string {
  return path.length === 0 ? "*" : `" ${path.join(" ")} "*`;
}

/** The cases of one command: its subcommands, or the values of each argument. */
function wordCases({ path, command }: Placed): string[] {
  const place = path.map((word) => ` ${word}`).join("");
  if (command.children.length > 0) return [`"${place}") echo ${command.children.map(({ name }) => name).join(" ")} ;;`];
  const cases = command.arguments.map((argument, index) => {
    const given = Array.from({ length: index }, () => '" "*').join("");
    const { choices } = argument;
    const candidates = choices.length > 0 ? `echo ${choices.join(" ")}` : namesCommand(argument);
    return candidates === undefined ? [] : [`"${place}"${given}) ${candidates} ;;`];
  });
  if (cases.every((lines) => lines.length === 0)) return [];
  const beyond = Array.from(cases, () => '" "*').join("");
  return [`"${place}"${beyond}) ;;`, ...cases.toReversed().flat()];
}
