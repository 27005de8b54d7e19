import { readFile } from "node:fs/promises";
import { parse } from "yaml";

/** The one document of a YAML file. Rejects with the system's error, or the parser's, which names line and column. */
export async function readManifest(path: string): Promise<unknown> {
  const document: unknown = parse(await readFile(path, "utf8"));
  return document;
}
