import { realpath } from "node:fs/promises";
import type { Container } from "../../api/workload.ts";
import { BadWorkload } from "../start-failure.ts";
import { isWithin } from "../../lib/within.ts";
import type { ModelVolume } from "./pod-volumes.ts";

/**
 * Throws BadWorkload for a model that is a link to a place outside of the volume: the link is in the Pod, and leads
 * nowhere there. The operator sees the same volume at the same path.
 */
export async function refuseOutsideLinks(
  { modelFiles, mounts }: Container,
  models: ModelVolume | undefined,
): Promise<void> {
  if (models === undefined) return;
  const root = await realpath(models.directory).catch(() => models.directory);
  const places = [root, models.directory, ...mounts.map(({ target }) => target)];
  for (const file of modelFiles) {
    // A file that cannot be read here is the engine's to report.
    const target = await realpath(file).catch(() => file);
    if (places.some((place) => isWithin(target, place))) continue;
    throw new BadWorkload(
      `the model file ${file} is a link to ${target}, which Pods do not see: put the file itself into ` +
        `${models.directory}, or mount its directory at the same path with the slot's mounts`,
    );
  }
}
