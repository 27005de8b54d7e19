import type { SlotView } from "../../src/api/management/views.ts";

/** A slot as a person describes it in the dialog. */
export interface NewSlot {
  readonly name: string;
  readonly model: string;
  readonly load: "always" | "onDemand";
  /** Separated by commas or spaces. */
  readonly aliases: string;
  /** Tokens; empty: as large as fits. */
  readonly context: string;
  /** Empty: none. */
  readonly group: string;
}

/** The body of `POST /api/slots`, without what is the default. */
export function bodyOf(slot: NewSlot): Readonly<Record<string, unknown>> {
  const { name, model, load, group } = slot;
  const aliases = aliasesOf(slot);
  return {
    name,
    ...(load === "always" ? {} : { load }),
    ...(aliases.length === 0 ? {} : { aliases }),
    ...(group === "" ? {} : { group }),
    model: { default: model, ...(slot.context === "" ? {} : { contextSize: Number(slot.context) }) },
  };
}

/** The manifest that the server writes for it. */
export function manifestOf(slot: NewSlot): string {
  const aliases = aliasesOf(slot);
  return [
    ...(slot.load === "always" ? [] : [`load = ${JSON.stringify(slot.load)}`]),
    ...(aliases.length === 0 ? [] : [`aliases = [${aliases.map((alias) => JSON.stringify(alias)).join(", ")}]`]),
    ...(slot.group === "" ? [] : [`group = ${JSON.stringify(slot.group)}`]),
    "",
    "[model]",
    `default = ${JSON.stringify(slot.model)}`,
    ...(slot.context === "" ? [] : [`context_size = ${slot.context}`]),
    "",
  ]
    .join("\n")
    .trimStart();
}

/** Clients that reach another slot by the new one's name, and aliases that other slots keep, in sentences. */
export function clashesOf(slot: NewSlot, slots: Iterable<Pick<SlotView, "name" | "aliases">>): readonly string[] {
  const wanted = aliasesOf(slot);
  return [...slots].flatMap(({ name, aliases }) => [
    ...(name !== slot.name && aliases.includes(slot.name)
      ? [`${slot.name} is an alias of ${name}, which loses it: clients that ask for ${slot.name} reach the new slot.`]
      : []),
    ...wanted.flatMap((alias) => {
      if (name === slot.name || (alias !== name && !aliases.includes(alias))) return [];
      return [`${alias} is ${alias === name ? "the name" : "an alias"} of ${name}, which keeps it.`];
    }),
  ]);
}

function aliasesOf({ aliases }: NewSlot): readonly string[] {
  return aliases.split(/[\s,]+/).filter((alias) => alias !== "");
}
