import { namesCommand, optionsAt, placed, type CommandTree, type Placed } from "./completion.ts";

/** The script for fish. */
export function fish(tree: CommandTree): string {
  const all = placed(tree);
  const valued = all
    .flatMap(({ command }) => command.options)
    .filter(({ takesValue }) => takesValue)
    .flatMap(({ short, long }) => [short, long].filter((flag) => flag !== undefined));
  const lines = all.flatMap((one) => [...words(one), ...options(tree, one)]);
  return `# berth: completion; written by \`berth completion\`.
function __berth_place
    set -l typed (commandline -opc)
    set -l option ""
    set -l place
    for word in $typed[2..-1]
        if test -n "$option"
            set option ""
            continue
        end
        switch $word
            case ${[...new Set(valued)].join(" ")}
                set option $word
            case '-*'
            case '*'
                set place $place $word
        end
    end
    string join " " -- "" $place
end
function __berth_at
    set -l place (__berth_place)
    set -l wanted (string join " " -- "" $argv)
    test "$place" = "$wanted"
end
function __berth_after
    set -l place (__berth_place)
    set -l wanted (string join " " -- "" $argv[2..-1])
    string match -q -- "$wanted*" "$place"; and test (count (string split -n " " -- "$place")) -eq $argv[1]
end
function __berth_in
    set -l place (__berth_place)
    set -l wanted (string join " " -- "" $argv)
    string match -q -- "$wanted *" "$place "
end
complete -c berth -f
${lines.join("\n")}
`;
}

function words({ path, command }: Placed): string[] {
  if (command.children.length > 0) {
    return command.children.map(
      (child) => `complete -c berth -n '__berth_at ${path.join(" ")}' -a ${child.name} -d ${quoted(child.description)}`,
    );
  }
  return command.arguments.flatMap((argument, index) => {
    const { choices } = argument;
    const names = namesCommand(argument);
    const candidates = choices.length > 0 ? choices.join(" ") : names === undefined ? undefined : `(${names})`;
    return candidates === undefined
      ? []
      : [`complete -c berth -n '__berth_after ${path.length + index} ${path.join(" ")}' -a ${quoted(candidates)}`];
  });
}

function options(tree: CommandTree, { path, command }: Placed): string[] {
  const isLeaf = command.children.length === 0 || command === tree;
  if (!isLeaf) return [];
  return optionsAt(tree, command).map(({ short, long, description, takesValue, choices }) =>
    [
      "complete -c berth",
      ...(path.length === 0 ? [] : [`-n '__berth_in ${path.join(" ")}'`]),
      ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
      ...(long === undefined ? [] : [`-l ${long.slice(2)}`]),
      ...(takesValue ? (choices.length > 0 ? [`-x -a ${quoted(choices.join(" "))}`] : ["-r"]) : []),
      `-d ${quoted(description)}`,
    ].join(" "),
  );
}

function quoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
