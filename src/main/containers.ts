import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { EngineImages } from "../api/engine-images.ts";
import type { Devices } from "../engines/placement.ts";

/** The images that Berth ships, beside this code. */
export const shippedImages = fileURLToPath(new URL("../../manifests/engines.yaml", import.meta.url));

/** Shipped images; `llamaImage` instead of those of llama.cpp. Throws BadImagesFile. */
export async function findImages(llamaImage: string | undefined): Promise<EngineImages> {
  const { readEngineImages } = await import("../store/engine-images.ts");
  const shipped = await readEngineImages(shippedImages);
  if (llamaImage === undefined) return shipped;
  const pin = { image: llamaImage };
  return { ...shipped, llama: { cpu: pin, vulkan: pin, rocm: pin, cuda: pin } };
}

/** What of this machine decides a backend. */
export function findDevices(): Devices {
  return { hasRenderNode: hasRenderNode(), hasNvidia: existsSync("/dev/nvidiactl") };
}

function hasRenderNode(): boolean {
  try {
    return readdirSync("/dev/dri").some((name) => name.startsWith("renderD"));
  } catch {
    return false;
  }
}
