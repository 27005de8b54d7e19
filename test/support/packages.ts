import { readFile } from "node:fs/promises";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { importsOf } from "../structure/imports.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Every package that is loaded when that module is, and by which of ours first. */
export async function packagesOf(entry: string): Promise<Map<string, string>> {
  return (await loadedBy(entry)).packages;
}

/** Every file of ours that is loaded when that module is. */
export async function importedBy(entry: string): Promise<ReadonlySet<string>> {
  return (await loadedBy(entry)).seen;
}

async function loadedBy(entry: string): Promise<{ seen: Set<string>; packages: Map<string, string> }> {
  const seen = new Set([resolve(root, entry)]);
  const packages = new Map<string, string>();
  for (const file of seen) {
    for (const { specifier, isDynamic, isTypeOnly } of importsOf(await readFile(file, "utf8"))) {
      if (isDynamic || isTypeOnly || specifier.startsWith("node:")) continue;
      if (specifier.startsWith(".")) seen.add(resolve(dirname(file), specifier));
      else if (!packages.has(specifier)) packages.set(specifier, relative(root, file));
    }
  }
  return { seen, packages };
}
