import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Stage } from "../../hack/images/stage.ts";

const root = join(import.meta.dirname, "../..");

/** Runs `test/doubles/engine.ts`, as the process runtime's tests do. */
export const engineImage = "berth-test/engine:1";

export async function importEngineImage(socketPath: string): Promise<void> {
  await using stage = Stage.open();
  await stage.addProgram(join(root, "node_modules/node/bin/node"), "/usr/bin/node");
  await stage.add(join(root, "test/doubles/engine.ts"), "/app/engine.ts");
  const [repo = "", tag = ""] = engineImage.split(":");
  await stage.import(socketPath, {
    repo,
    tag,
    changes: ['ENTRYPOINT ["/usr/bin/node","/app/engine.ts"]', "ENV HOST=0.0.0.0 PORT=8080"],
  });
}

/** The same engine in layers that no other image shares. */
export async function importVariant(socketPath: string, image: string): Promise<void> {
  await using stage = Stage.open();
  await stage.addProgram(join(root, "node_modules/node/bin/node"), "/usr/bin/node");
  await stage.add(join(root, "test/doubles/engine.ts"), "/app/engine.ts");
  await writeFile(join(stage.root, "variant"), randomUUID());
  const [repo = "", tag = ""] = image.split(":");
  await stage.import(socketPath, { repo, tag, changes: ['ENTRYPOINT ["/usr/bin/node","/app/engine.ts"]'] });
}

/** Says nothing of what to run. */
export const emptyImage = "berth-test/empty:1";

export async function importEmptyImage(socketPath: string): Promise<void> {
  await using stage = Stage.open();
  const [repo = "", tag = ""] = emptyImage.split(":");
  await stage.import(socketPath, { repo, tag, changes: [] });
}
