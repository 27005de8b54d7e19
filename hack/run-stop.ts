import { access } from "node:fs/promises";

/** A line for a person, with the remedy. */
export class Stop extends Error {}

export async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}
