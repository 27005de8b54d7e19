import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * Why the package below `directory`/node_modules is not the one that `directory`/package-lock.json names by its hash;
 * undefined where it is. npm checks each package against its lockfile, but the platform package of llama.cpp is
 * installed beside the lockfile (an install by the lockfile would bring the CUDA and Vulkan builds): npm keeps the hash
 * of that install in node_modules/.package-lock.json. No script of the package has run by then.
 */
export async function integrityProblem(directory: string, name: string): Promise<string | undefined> {
  const wanted = await integrityIn(join(directory, "package-lock.json"), name);
  const found = await integrityIn(join(directory, "node_modules/.package-lock.json"), name);
  if (wanted === undefined) return `${join(directory, "package-lock.json")} has no hash of ${name}`;
  if (found === wanted) return undefined;
  return `${name} is not the package that ${join(directory, "package-lock.json")} names: its hash is ${found ?? "not known"}, not ${wanted}`;
}

/** Removes a package whose hash is not the locked one, so that no program loads its files. */
export async function removePackage(directory: string, name: string): Promise<void> {
  await rm(join(directory, "node_modules", name), { recursive: true, force: true });
}

async function integrityIn(lockfile: string, name: string): Promise<string | undefined> {
  try {
    let value: unknown = JSON.parse(await readFile(lockfile, "utf8"));
    for (const key of ["packages", `node_modules/${name}`, "integrity"]) {
      if (typeof value !== "object" || value === null) return undefined;
      value = Object.entries(value).find(([entry]) => entry === key)?.[1];
    }
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}
