import { spawnSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Stage } from "../../hack/images/stage.ts";

const root = join(import.meta.dirname, "../..");

/** Runs `test/doubles/engine.ts`, as the process runtime's tests do. */
export const engineImage = "berth-test/engine:1";

/** How any image with those files starts. */
const entrypoint = ["/usr/bin/node", "/app/engine.ts"] as const;

async function addEngine(stage: Stage): Promise<void> {
  await stage.addProgram(process.execPath, "/usr/bin/node");
  await stage.add(join(root, "test/doubles/engine.ts"), "/app/engine.ts");
}

export async function importEngineImage(socketPath: string): Promise<void> {
  await using stage = Stage.open();
  await addEngine(stage);
  const [repo = "", tag = ""] = engineImage.split(":");
  await stage.import(socketPath, {
    repo,
    tag,
    changes: [`ENTRYPOINT ${JSON.stringify(entrypoint)}`, "ENV HOST=0.0.0.0 PORT=8080"],
  });
}

/**
 * Builds an image of the real llama-server that `make test-docker` names. `changes`: further instructions of its Dockerfile.
 * Resolves with the image's name.
 */
export async function importLlamaServer(
  socketPath: string,
  tag: string,
  changes: readonly string[] = [],
): Promise<string> {
  const binary = process.env["BERTH_TEST_LLAMA_SERVER"];
  if (binary === undefined || binary === "")
    throw new Error("run `make test-docker`, or name a llama-server in BERTH_TEST_LLAMA_SERVER");
  await using stage = Stage.open();
  await stage.addProgram(binary, "/app/llama-server");
  const repo = "berth-test/llama-server";
  await stage.import(socketPath, { repo, tag, changes: ['ENTRYPOINT ["/app/llama-server"]', ...changes] });
  return `${repo}:${tag}`;
}

/** The same engine in layers that no other image shares. */
export async function importVariant(socketPath: string, image: string): Promise<void> {
  await using stage = Stage.open();
  await addEngine(stage);
  await writeFile(join(stage.root, "variant"), randomUUID());
  const [repo = "", tag = ""] = image.split(":");
  await stage.import(socketPath, { repo, tag, changes: [`ENTRYPOINT ${JSON.stringify(entrypoint)}`] });
}

/**
 * The same engine as tar files in that directory, one for each layer of an image: the engine, then noise of so many
 * bytes each. `config` is the image's.
 */
export async function engineLayers(
  directory: string,
  noiseBytes: readonly number[],
): Promise<{ readonly files: readonly string[]; readonly config: object }> {
  const pack = async (name: string, fill: (stage: Stage) => Promise<void>): Promise<string> => {
    await using stage = Stage.open();
    await fill(stage);
    const path = join(directory, name);
    const { status } = spawnSync("tar", ["-C", stage.root, "--owner=0", "--group=0", "-cf", path, "."]);
    if (status !== 0) throw new Error(`tar ended with ${status}`);
    return path;
  };
  const files = [await pack("engine.tar", addEngine)];
  for (const [index, bytes] of noiseBytes.entries()) {
    const name = `noise-${index}`;
    files.push(await pack(`${name}.tar`, (stage) => writeFile(join(stage.root, name), randomBytes(bytes))));
  }
  return { files, config: { Entrypoint: entrypoint, Env: ["HOST=0.0.0.0", "PORT=8080"] } };
}

/** Says nothing of what to run. */
export const emptyImage = "berth-test/empty:1";

export async function importEmptyImage(socketPath: string): Promise<void> {
  await using stage = Stage.open();
  const [repo = "", tag = ""] = emptyImage.split(":");
  await stage.import(socketPath, { repo, tag, changes: [] });
}
