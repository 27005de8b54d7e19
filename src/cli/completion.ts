/** A line per command, as completion and `docs/cli.md` need it. */
export interface CommandTree {
  readonly name: string;
  readonly description: string;
  readonly options: readonly string[];
  readonly children: readonly CommandTree[];
}

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

/** A completion script; slot names are asked of the running service when a command takes one. */
export function completionScript(shell: Shell, tree: CommandTree): string {
  switch (shell) {
    case "bash":
      return bash(tree);
    case "zsh":
      return `autoload -U +X bashcompinit && bashcompinit\n${bash(tree)}`;
    case "fish":
      return fish(tree);
    default:
      return shell satisfies never;
  }
}

const takesSlot = ["show", "plan", "logs"];

function bash(tree: CommandTree): string {
  const cases = tree.children
    .filter(({ children }) => children.length > 0)
    .map(({ name, children }) => `    ${name}) words="${children.map((child) => child.name).join(" ")}" ;;`);
  const top = tree.children.map(({ name }) => name).join(" ");
  return `_berth() {
  local current=\${COMP_WORDS[COMP_CWORD]} words=""
  if [ "$COMP_CWORD" -eq 1 ]; then words="${top}"
  elif [ "$COMP_CWORD" -eq 2 ]; then case \${COMP_WORDS[1]} in
${cases.join("\n")}
    chat) words="$(berth slot list -o name 2>/dev/null)" ;;
  esac
  elif [ "$COMP_CWORD" -eq 3 ]; then case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
    ${takesSlot.map((verb) => `"slot ${verb}"`).join("|")}) words="$(berth slot list -o name 2>/dev/null)" ;;
    "model show") words="$(berth model list -o name 2>/dev/null)" ;;
  esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _berth berth
`;
}

function fish(tree: CommandTree): string {
  const lines = ["complete -c berth -f"];
  for (const { name, description, children } of tree.children) {
    lines.push(`complete -c berth -n __fish_use_subcommand -a ${name} -d ${JSON.stringify(description)}`);
    for (const child of children) {
      lines.push(
        `complete -c berth -n "__fish_seen_subcommand_from ${name}" -a ${child.name} -d ${JSON.stringify(child.description)}`,
      );
    }
  }
  lines.push(
    `complete -c berth -n "__fish_seen_subcommand_from ${takesSlot.join(" ")} chat" -a "(berth slot list -o name 2>/dev/null)"`,
  );
  return `${lines.join("\n")}\n`;
}
