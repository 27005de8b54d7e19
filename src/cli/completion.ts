export interface OptionOf {
  readonly long: string | undefined;
  readonly short: string | undefined;
  readonly description: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

export interface ArgumentOf {
  /** `slot`, `ref`, `upstream` and `group` are completed from the service; other arguments by their choices. */
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

/** A completion script; it requests the names of slots and models from the service when a command needs them. */
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

/** A command and the words before it, without the program's own. */
export interface Placed {
  readonly path: readonly string[];
  readonly command: CommandTree;
}

/** The command and all its subcommands, each with the words before it. */
export function placed(command: CommandTree, path: readonly string[] = []): Placed[] {
  return [{ path, command }, ...command.children.flatMap((child) => placed(child, [...path, child.name]))];
}

/** A command that prints the values of an argument; undefined where no such command exists. */
export function namesCommand({ name }: ArgumentOf): string | undefined {
  if (name === "slot") return "berth slot list -o name 2>/dev/null";
  if (name === "upstream") return "berth upstream list -o name 2>/dev/null";
  if (name === "group") return "berth group list -o name 2>/dev/null";
  if (name === "ref") return "berth model list -o name 2>/dev/null";
  return undefined;
}

/** The options of a command: its own, those of the whole program, and `--help`. */
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
