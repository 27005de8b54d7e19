import { isBuiltin, modelRefSchema } from "../../api/names.ts";

/** The most letters of a slot's name. */
const slotLetters = 32;

/** A name of lower-case letters, digits and dashes that resembles the text: `Qwen/Qwen3 8B` becomes `qwen-qwen3-8b`. */
export function nameFrom(text: string, letters = slotLetters): string {
  const name = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, letters);
  return name.replace(/-$/, "") || "model";
}

/** The name, or the name with the first number from 2 on that is free. Takes it. */
export function uniqueName(name: string, taken: Set<string>, letters = slotLetters): string {
  let found = name;
  for (let number = 2; taken.has(found); number += 1) {
    const ending = `-${number}`;
    found = `${name.slice(0, letters - ending.length)}${ending}`;
  }
  taken.add(found);
  return found;
}

/** A file's name that can be a model's name: other characters than letters, digits, dot, dash and underscore are dashes. */
export function refFrom(text: string): string {
  const ref = text.replaceAll(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  return ref.slice(0, 100) || "model";
}

/** Whether clients may call a slot by that further name. */
export function canBeAlias(text: string): boolean {
  return modelRefSchema.safeParse(text).success && !isBuiltin(text);
}
