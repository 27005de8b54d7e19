import assert from "node:assert/strict";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { say, startDockerDaemon } from "../doubles/docker-daemon.ts";
import { makeRun } from "../support/make-run.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

it("SVC_RUNTIME=docker make run leaves nothing behind when it is interrupted while the image is made", async () => {
  await using directory = await tempDir();
  const tmp = join(directory.path, "tmp");
  await mkdir(tmp);
  // The daemon has no image, and its import of one never ends.
  await using daemon = await startDockerDaemon((asked, response) => {
    if (asked === "GET /images/json") say(response, 200, []);
  });
  const env = { ...process.env, TMPDIR: tmp, SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${daemon.path}` };
  await using run = await makeRun(directory.path, env);
  const left = async (): Promise<string[]> => (await readdir(tmp)).filter((name) => name.startsWith("berth-image-"));
  await until("the image's files are gathered", async () => (await left()).length > 0);
  assert.equal(await run.interrupt(), 130);
  assert.deepEqual(await left(), []);
});
