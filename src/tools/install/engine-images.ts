import type { EngineImages, EngineLock } from "../../api/engine-images.ts";
import { CommandError } from "../../cli/client.ts";
import { render, type Format } from "../../cli/output.ts";
import { shippedImages } from "../../program/shipped-images.ts";
import { actAs } from "../../program/owner.ts";
import { readSettings } from "../../program/settings.ts";

interface Row {
  readonly engine: string;
  readonly backend: string;
  readonly image: string;
  readonly digest: string;
  /** The source of the digest. */
  readonly pinned: "engines.yaml" | "first pull" | "";
}

/** `berth engine list`. Throws CommandError, SettingsError. */
export async function engineTable(env: NodeJS.ProcessEnv, format: Format): Promise<string> {
  const { images, lock } = await read(env);
  const rows: Row[] = Object.entries(images).flatMap(([engine, pins]) =>
    Object.entries(pins).map(([backend, { image, digest }]): Row => {
      const locked = lock[image];
      const pinned = digest === undefined ? (locked === undefined ? "" : "first pull") : "engines.yaml";
      return { engine, backend, image, digest: digest ?? locked ?? "", pinned };
    }),
  );
  // Images that manifests name themselves.
  const known = new Set(rows.map(({ image }) => image));
  for (const [image, digest] of Object.entries(lock))
    if (!known.has(image)) rows.push({ engine: "", backend: "", image, digest, pinned: "first pull" });
  return await render(
    rows.map((row) => ({ ...row })),
    [
      { title: "ENGINE", value: ({ engine }) => engine || "-" },
      { title: "BACKEND", value: ({ backend }) => backend || "-" },
      { title: "IMAGE", value: ({ image }) => image },
      { title: "PINNED BY", value: ({ pinned }) => pinned || "-" },
      { title: "DIGEST", isWide: true, value: ({ digest }) => digest || "-" },
    ],
    format,
    "image",
  );
}

/** `berth engine pin`. Throws CommandError, SettingsError. */
export async function pinImages(env: NodeJS.ProcessEnv, file: string = shippedImages): Promise<string> {
  const { lock } = await read(env, file);
  const { pinEngineImages } = await import("../../store/state/engine-images.ts");
  const pinned = await understood(() => pinEngineImages(file, lock));
  return pinned.length === 0
    ? "nothing to pin: no image without a digest has been pulled\n"
    : `pinned in ${file}: ${pinned.join(", ")}\n`;
}

async function read(
  env: NodeJS.ProcessEnv,
  file = shippedImages,
): Promise<{ readonly images: EngineImages; readonly lock: EngineLock }> {
  // The lock file belongs to the service, engines.yaml to the user who installed Berth.
  using stack = new DisposableStack();
  const { config } = await readSettings(env, { takeOwner: async (owner) => void stack.use(await actAs(owner)) });
  const { readEngineImages } = await import("../../store/state/engine-images.ts");
  const { openStore } = await import("../../store/open.ts");
  return await understood(async () => ({
    images: await readEngineImages(file),
    lock: await openStore(config).engineLock(),
  }));
}

async function understood<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "BadImagesFile") throw error;
    throw new CommandError("engine.images_unusable", error.message, "next" in error ? String(error.next) : undefined);
  }
}
