import { join } from "node:path";
import { Stage } from "../../../hack/images/stage.ts";
import { nodeConfig } from "./node-config.ts";
import type { NodeApiServer } from "./node.ts";

const root = join(import.meta.dirname, "../../..");

/** Runs `test/doubles/engine.ts`; a tag that is not `latest` is not fetched where it is there. */
export const engineImage = "localhost/berth-test/engine:1";

/** Imports the program of every Pod's sandbox, which sleeps. */
export async function importPauseImage(cluster: NodeApiServer): Promise<void> {
  await using stage = Stage.open();
  await stage.addProgram("/bin/sleep", "/pause");
  const file = join(cluster.directory, "pause.tar");
  await stage.archive(file, { name: nodeConfig.pauseImage, entrypoint: ["/pause", "infinity"] });
  await cluster.importImage(file);
}

export async function importEngineImage(cluster: NodeApiServer): Promise<void> {
  await using stage = Stage.open();
  await stage.addProgram(process.execPath, "/usr/bin/node");
  await stage.add(join(root, "test/doubles/engine.ts"), "/app/engine.ts");
  const file = join(cluster.directory, "engine.tar");
  await stage.archive(file, {
    name: engineImage,
    entrypoint: ["/usr/bin/node", "/app/engine.ts"],
    env: ["HOST=0.0.0.0", "PORT=8080"],
  });
  await cluster.importImage(file);
}
