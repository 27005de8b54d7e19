import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { CommandError } from "../../cli/client.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import { readManifest } from "../../kubernetes/manifest.ts";
import { isRecord } from "../../lib/record.ts";

/** Beside this code, in a clone, a package and an image. */
const shipped = fileURLToPath(new URL("../../../crds", import.meta.url));
const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const limitMs = 60_000;
const pollMs = 200;

/**
 * Writes the CRDs by server-side apply, and resolves once the API server serves them all. Stored objects stay.
 * Rejects with the API server's error, or with CommandError after a minute without an established kind.
 */
export async function applyKinds(
  client: ApiClient,
  write: (text: string) => void,
  { directory = shipped, waitMs = limitMs }: { readonly directory?: string; readonly waitMs?: number } = {},
): Promise<void> {
  const files = (await readdir(directory)).filter((name) => name.endsWith(".yaml")).toSorted();
  const names: string[] = [];
  for (const file of files) {
    const crd = await readManifest(join(directory, file));
    const name = isRecord(crd) && isRecord(crd["metadata"]) ? String(crd["metadata"]["name"]) : file;
    const query = { fieldManager: "berth-kinds", force: true };
    await client.request("PATCH", `${path}/${name}`, { query, body: crd, contentType: patchTypes.apply });
    write(`${name}: applied\n`);
    names.push(name);
  }
  const endsAtMs = performance.now() + waitMs;
  for (const name of names)
    while (!isEstablished(await client.request("GET", `${path}/${name}`))) {
      if (performance.now() > endsAtMs)
        throw new CommandError(
          "cluster.not_established",
          `the API server does not serve ${name} yet`,
          `see its conditions: kubectl describe crd ${name}`,
        );
      await delay(pollMs);
    }
}

function isEstablished(crd: unknown): boolean {
  const status = isRecord(crd) ? crd["status"] : undefined;
  const conditions: readonly unknown[] =
    isRecord(status) && Array.isArray(status["conditions"]) ? status["conditions"] : [];
  return conditions.some((each) => isRecord(each) && each["type"] === "Established" && each["status"] === "True");
}
