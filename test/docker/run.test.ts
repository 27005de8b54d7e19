import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import Dockerode from "dockerode";
import { isRecord } from "../../src/lib/record.ts";
import { greeting, makeRun } from "../support/make-run.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";

test(
  "SVC_RUNTIME=docker make run: the embedded engine in a container, behind the gateway",
  { timeout: 300_000 },
  async () => {
    await using directory = await tempDir();
    const api = new Dockerode({ socketPath: testSocket() });
    const ids = async (): Promise<string[]> => (await api.listContainers({ all: true })).map(({ Id: id }) => id);
    let ours: string | undefined;
    {
      await using run = await makeRun(directory.path, {
        SVC_RUNTIME: "docker",
        DOCKER_HOST: `unix://${testSocket()}`,
        TMPDIR: directory.path,
        SVC_STATE_DIR: join(directory.path, "state"),
      });
      await until("it greets", () => run.text().includes(greeting), 240_000).catch((error: unknown) => {
        throw new Error(`${run.text()}\n${run.errors()}`, { cause: error });
      });
      assert.match(run.text(), /primary is ready\. One streamed chat:\n\n.*\n {2}primary: \S+ \S+/);
      const slot: unknown = await (await fetch(`${run.url}/api/slots/primary`)).json();
      assert.ok(isRecord(slot) && Array.isArray(slot["processes"]));
      const [process]: unknown[] = slot["processes"];
      assert.ok(isRecord(process) && typeof process["containerId"] === "string");
      assert.match(String(slot["image"]), /^berth-embedded:/);
      ours = process["containerId"];
      assert.ok((await ids()).includes(ours));
      assert.equal(await run.interrupt(), 0);
    }
    assert.ok(!(await ids()).includes(ours), "Ctrl-C leaves no container");
  },
);
