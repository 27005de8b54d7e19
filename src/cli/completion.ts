export interface OptionOf {
  readonly long: string | undefined;
  readonly short: string | undefined;
  readonly description: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

export interface ArgumentOf {
  /** `slot`, `ref` and `upstream` are completed from the service; anything else by its choices. */
  readonly name: string;
  readonly choices: readonly string[];
}

/** A command as completion scripts need it. */
export interface CommandTree {
  readonly name: string;
  readonly description: string;
  readonly options: readonly OptionOf[];
  readonly arguments: readonly ArgumentOf[];
  readonly children: readonly CommandTree[];
}

export type Shell = "bash" | "zsh" | "fish";

/** A completion script; names of slots and models are asked of the service when a command takes one. */
export async function completionScript(shell: Shell, tree: CommandTree): Promise<string> {
  switch (shell) {
    case "bash":
    case "zsh": {
      const { bash, zsh } = await import("./completion-sh.ts");
      return shell === "bash" ? bash(tree) : zsh(tree);
    }
    case "fish": {
      const { fish } = await import("./completion-fish.ts");
      return fish(tree);
    }
    default:
      return shell satisfies never;
  }
}

/** A command and the words that lead to it, without the program's own. */
export interface Placed {
  readonly path: readonly string[];
  readonly command: CommandTree;
}

/** The command and all below it, each with the words that lead there. */
export function placed(command: CommandTree, path: readonly string[] = []): Placed[] {
  return [{ path, command }, ...command.children.flatMap((child) => placed(child, [...path, child.name]))];
}

/** A command that prints the names which may stand in an argument's place; undefined where nobody knows them. */
export function namesCommand({ name }: ArgumentOf): string | undefined {
  if (name === "slot") return "berth slot list -o name 2>/dev/null";
  if (name === "upstream") return "berth upstream list -o name 2>/dev/null";
  if (name === "ref") return "berth model list -o name 2>/dev/null";
  return undefined;
}

/** What may follow a command: its options, those of the whole program, and `--help`. */
export function optionsAt(tree: CommandTree, command: CommandTree): readonly OptionOf[] {
  const help: OptionOf = {
    long: "--help",
    short: "-h",
    description: "display help for command",
    takesValue: false,
    choices: [],
  };
  return [...command.options, ...(command === tree ? [] : tree.options.filter(({ takesValue }) => takesValue)), help];
}
