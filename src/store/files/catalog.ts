import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { catalogEntrySchema, type CatalogEntry } from "../../api/catalog.ts";
import { problemsOf } from "../../api/problems.ts";

/** The curated models of a directory, by file name, then in the order of their documents. Rejects for an invalid one. */
export async function readCatalog(directory: string): Promise<readonly CatalogEntry[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".yaml")).toSorted();
  const found = new Map<string, CatalogEntry>();
  for (const name of names) {
    const path = join(directory, name);
    for (const document of parseAllDocuments(await readFile(path, "utf8"))) {
      const parsed = catalogEntrySchema.safeParse(document.toJS());
      if (!parsed.success) {
        const problems = problemsOf(parsed.error, catalogEntrySchema);
        throw new Error(
          `${path}: ${problems.map((problem) => `${problem.path.join(".")}: ${problem.message}`).join("; ")}`,
        );
      }
      const ref = parsed.data.spec.ref ?? parsed.data.metadata.name;
      if (found.has(ref)) throw new Error(`${path}: ${ref} is there twice`);
      found.set(ref, parsed.data);
    }
  }
  return [...found.values()];
}
