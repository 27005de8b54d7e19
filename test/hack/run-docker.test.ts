import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readdir } from "node:fs/promises";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { say, startDockerDaemon } from "../doubles/docker-daemon.ts";
import { freePorts } from "../support/ports.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

async function environment(directory: string, socket: string): Promise<NodeJS.ProcessEnv> {
  const { first } = await freePorts(2);
  await mkdir(join(directory, "tmp"));
  return {
    ...process.env,
    BERTH_RUN_DIR: join(directory, "run"),
    TMPDIR: join(directory, "tmp"),
    SVC_RUNTIME: "docker",
    DOCKER_HOST: socket,
    SVC_PORT: String(first),
    SVC_OPERATOR_PORT: String(first + 1),
  };
}

describe("SVC_RUNTIME=docker make run", () => {
  it("names the missing daemon", async () => {
    await using directory = await tempDir();
    const env = await environment(directory.path, `unix://${directory.path}/none.sock`);
    const { code, stderr } = await new Promise<{ code: unknown; stderr: string }>((settle) => {
      execFile(process.execPath, ["hack/run.ts"], { env, timeout: 600_000 }, (error, _stdout, text) =>
        settle({ code: error?.code, stderr: text }),
      );
    });
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^make run: the Docker daemon at \S+none\.sock does not answer: there is no such socket; .*\nmake run: .*apt-get install docker\.io.*\n$/,
    );
  });

  it("leaves nothing behind when it is interrupted while the image is made", { timeout: 600_000 }, async () => {
    await using directory = await tempDir();
    // It has no image, and takes one for ever.
    await using daemon = await startDockerDaemon((asked, response) => {
      if (asked === "GET /images/json") say(response, 200, []);
    });
    const env = await environment(directory.path, `unix://${daemon.path}`);
    const child = spawn(process.execPath, ["hack/run.ts"], { env, stdio: "ignore" });
    const ended = new Promise((resolve) => child.once("exit", resolve));
    try {
      const left = async (): Promise<string[]> =>
        (await readdir(join(directory.path, "tmp"))).filter((name) => name.startsWith("berth-image-"));
      await until("the image's files are gathered", async () => (await left()).length > 0);
      child.kill("SIGINT");
      assert.equal(await ended, 130);
      assert.deepEqual(await left(), []);
    } finally {
      child.kill("SIGKILL");
    }
  });
});
