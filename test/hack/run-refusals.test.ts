import assert from "node:assert/strict";
import { chmod, chown, mkdir, readdir, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { checkModel } from "../../hack/run-model.ts";
import { checkSettings } from "../../hack/run-settings.ts";
import { Stop } from "../../hack/run-stop.ts";
import { listen } from "../support/listen.ts";
import { makeRun } from "../support/make-run.ts";
import { noOtherUser, otherUser, twoUsersDir } from "../support/other-user.ts";
import { rejectionOf } from "../support/rejection.ts";
import { tempDir } from "../support/temp-dir.ts";

describe("make run, where it cannot run,", { concurrency: 2 }, () => {
  for (const [env, line] of [
    [{ SVC_PORT: "many" }, /^SVC_PORT=many is not a port; choose one from 1024 to 65535$/],
    [{ SVC_OPERATOR_PORT: "x" }, /^SVC_OPERATOR_PORT=x is not a port; choose one from 1024 to 65535$/],
    [{ SVC_RUNTIME: "podman" }, /^SVC_RUNTIME=podman is nothing that make run has; .*SVC_RUNTIME=docker/],
  ] as const)
    it(`refuses the setting ${JSON.stringify(env)}`, () => {
      assert.throws(() => checkSettings(env), { message: line });
    });

  for (const [model, line] of [
    [
      "/nowhere/m.gguf",
      /^MODEL=\/nowhere\/m\.gguf is not there; give the path of a GGUF file, a name of `bin\/berth model catalog`, or an address$/,
    ],
    ["/", /^MODEL=\/ is a directory; give the path of a GGUF file$/],
    ["PAGE", /^MODEL=\S+page\.gguf is no GGUF file: it does not begin with GGUF; give the path of a GGUF file$/],
  ] as const)
    it(`refuses the model ${model}`, async () => {
      await using directory = await tempDir();
      const page = join(directory.path, "page.gguf");
      await writeFile(page, "<!doctype html><title>not found</title>");
      const { message } = await rejectionOf(checkModel(model === "PAGE" ? page : model), Stop);
      assert.match(message, line);
    });

  for (const [env, line] of [
    [{ MODEL: "/nowhere/m.gguf" }, /^MODEL=\/nowhere\/m\.gguf is not there; /],
    [{ SVC_PORT: "TAKEN" }, /^port TAKEN is taken; .*SVC_PORT=8090 make run$/],
    [{ SVC_OPERATOR_PORT: "TAKEN" }, /^port TAKEN, the operator's, is taken: .*SVC_OPERATOR_PORT=8078/],
    [
      { SVC_PORT: "TAKEN", SVC_OPERATOR_PORT: "TAKEN" },
      /^port TAKEN is the operator's \(SVC_OPERATOR_PORT\); choose another: /,
    ],
    [{ SVC_HOST: "192.0.2.1" }, /^SVC_HOST=192\.0\.2\.1 is not an address of this machine; [^\n]+$/],
    [
      { BERTH_RUN_DIR: "/proc/berth-run" },
      /^\/proc\/berth-run\/config\/slots cannot be written; choose another place: .*$/,
    ],
    [
      { SVC_RUNTIME: "docker", DOCKER_HOST: "unix:///nowhere.sock" },
      /^the Docker daemon at \/nowhere\.sock does not answer: there is no such socket; .*\nmake run: .*apt-get install docker\.io.*$/,
    ],
  ] as const)
    it(`ends with the cause and the remedy: ${JSON.stringify(env)}`, async () => {
      await using directory = await tempDir();
      const taken = createServer();
      const port = String(await listen(taken));
      const given = Object.entries(env).map(([name, value]) => [name, value.replace("TAKEN", port)]);
      try {
        await using run = await makeRun(directory.path, Object.fromEntries(given));
        assert.deepEqual([await run.ended, run.text()], [1, ""]);
        assert.ok(run.errors().startsWith("make run: ") && run.errors().endsWith("\n"), run.errors());
        assert.match(run.errors().slice("make run: ".length, -1).replaceAll(port, "TAKEN"), line);
      } finally {
        taken.close();
      }
    });

  it("writes nothing into a directory where everybody may write", async () => {
    await using directory = await tempDir();
    const run = join(directory.path, "run");
    await mkdir(run);
    await chmod(run, 0o777);
    await using started = await makeRun(directory.path, { BERTH_RUN_DIR: run });
    assert.equal(await started.ended, 1);
    assert.match(
      started.errors(),
      /^make run: \S+\/run is not safe: \S+\/run may be written by everybody \(mode 777\); chmod/,
    );
  });

  it("runs no command of the user who made its directory first", { skip: noOtherUser() ?? false }, async () => {
    await using directory = await twoUsersDir();
    const slots = join(directory.theirs, "config/slots");
    await mkdir(slots, { recursive: true });
    const command = `["/bin/sh", "-c", "id >${join(directory.path, "ran")}"]`;
    await writeFile(join(slots, "evil.toml"), `load = "always"\nengine = "custom"\ncommand = ${command}\n`);
    await chown(join(directory.theirs, "config"), otherUser, otherUser);
    await using started = await makeRun(directory.path, { BERTH_RUN_DIR: directory.theirs });
    assert.equal(await started.ended, 1);
    assert.match(started.errors(), /^make run: \S+\/theirs is not safe: \S+\/theirs belongs to \S+ \(uid 65534\)/);
    assert.ok(!(await readdir(directory.path)).includes("ran"));
    assert.deepEqual(await readdir(directory.theirs), ["config"]);
  });
});
