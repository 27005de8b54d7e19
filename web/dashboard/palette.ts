import type { SlotView } from "../../src/api/management/views.ts";
import { isPage, pageNames } from "./segments.ts";

/** Something that the palette leads to, or does. */
export interface Command {
  readonly name: string;
  /** More words that find it. */
  readonly words?: string;
  /** An address below that of Berth, or what is done. */
  readonly act: string | (() => void);
}

export interface SlotActs {
  readonly load: (slot: string) => void;
  readonly unload: (slot: string) => void;
  readonly restart: (slot: string) => void;
}

/** Everything that a person may want from any page: pages, slots, and what can be done with them. */
export function commandsOf(
  slots: readonly Pick<SlotView, "name" | "processes" | "enabled" | "model">[],
  acts: SlotActs,
): readonly Command[] {
  const pages = Object.keys(pageNames).filter(isPage);
  return [
    ...pages.map((page) => ({ name: pageNames[page], act: page === "slots" ? "./" : `ui/${page}` })),
    { name: "Tokens", words: "settings", act: "ui/settings/tokens" },
    { name: "Chat", words: "talk", act: "chat/" },
    ...slots.flatMap(({ name, processes, enabled, model }): readonly Command[] => {
      const at = `ui/slots/${encodeURIComponent(name)}`;
      const words = model ?? "";
      const isLoaded = processes.length > 0;
      return [
        { name, words: `slot ${words}`, act: at },
        { name: `Chat with ${name}`, words, act: `chat/?model=${encodeURIComponent(name)}` },
        { name: `Log of ${name}`, words, act: `${at}/log` },
        { name: `Manifest of ${name}`, words: `edit ${words}`, act: `${at}/manifest` },
        ...(enabled && isLoaded
          ? [
              { name: `Unload ${name}`, words, act: () => acts.unload(name) },
              { name: `Restart ${name}`, words, act: () => acts.restart(name) },
            ]
          : []),
        ...(enabled && !isLoaded ? [{ name: `Load ${name}`, words, act: () => acts.load(name) }] : []),
      ];
    }),
  ];
}

const most = 12;

/** The commands that have all letters of the text in their order, those with the letters together and early first. */
export function found(commands: readonly Command[], text: string): readonly Command[] {
  return commands
    .map((command) => ({ command, cost: Math.min(costOf(command.name, text), 40 + costOf(command.words ?? "", text)) }))
    .filter(({ cost }) => cost < Infinity)
    .toSorted((one, other) => one.cost - other.cost)
    .slice(0, most)
    .map(({ command }) => command);
}

/** How far apart the letters of a text are within a name; Infinity: they are not all there in that order. */
function costOf(name: string, text: string): number {
  const [all, wanted] = [name.toLowerCase(), text.toLowerCase().replaceAll(/\s+/g, "")];
  if (wanted === "") return name === "" ? Infinity : 0;
  const whole = all.replaceAll(/\s+/g, "").indexOf(wanted);
  if (whole >= 0) return whole;
  let [at, cost] = [0, 10];
  for (const letter of wanted) {
    const next = all.indexOf(letter, at);
    if (next < 0) return Infinity;
    cost += next - at;
    at = next + 1;
  }
  return cost;
}
