import { fileURLToPath } from "node:url";
import type { EngineImages } from "../api/engine-images.ts";

/** The images that Berth ships, beside this code. */
export const shippedImages = fileURLToPath(new URL("../../manifests/engines.yaml", import.meta.url));

/** Shipped images, with `llamaImage` instead of those of llama.cpp. Throws BadImagesFile. */
export async function findImages(llamaImage: string | undefined): Promise<EngineImages> {
  const { readEngineImages } = await import("../store/state/engine-images.ts");
  const shipped = await readEngineImages(shippedImages);
  if (llamaImage === undefined) return shipped;
  const pin = { image: llamaImage };
  return { ...shipped, llama: { cpu: pin, vulkan: pin, rocm: pin, cuda: pin } };
}
