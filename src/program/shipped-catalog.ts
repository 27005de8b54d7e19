import { fileURLToPath } from "node:url";
import type { CatalogEntry } from "../api/catalog.ts";

/** The curated models that Berth ships, beside this code. Rejects for a file that cannot be read. */
export async function findCatalog(): Promise<readonly CatalogEntry[]> {
  const { readCatalog } = await import("../store/files/catalog.ts");
  return await readCatalog(fileURLToPath(new URL("../../manifests/catalog", import.meta.url)));
}
