import type { Images } from "../../../src/runtimes/docker/images.ts";
import type { Preparation } from "../../../src/runtimes/runtime.ts";

/** Asks for an image as the operator does: where it is absent it is fetched. */
export async function prepare(images: Images, slot: string, image: string, attempt: string): Promise<Preparation> {
  const found = await images.preparation(slot, image, attempt);
  if (found.state !== "absent") return found;
  await images.fetch(slot, image, attempt);
  return await images.preparation(slot, image, attempt);
}
