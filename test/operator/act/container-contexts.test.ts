import assert from "node:assert/strict";
import { chmod, chown, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { plainContainer } from "../../support/container.ts";
import { Desk, keeping, never } from "./desk.ts";

const needsRoot = process.getuid?.() === 0 ? false : "needs root";
const without = "it starts without a place for its context: ";

describe("the context of an engine in a container", () => {
  const container = plainContainer;

  it("is saved by any user and read again, in a directory that is open to its mount alone", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500], { container });
    await desk.contexts.save(first.process, keeping(), 10_000);
    const [file = ""] = await desk.files();
    const paths = ["contexts", "contexts/primary", "contexts/primary/main", `contexts/primary/main/${file}`];
    const modes = await Promise.all(
      paths.map(async (path) => ((await stat(join(desk.stateDir, path))).mode & 0o777).toString(8)),
    );
    assert.deepEqual(modes.slice(0, 3), ["700", "700", "777"]);
    const second = await desk.start([0], { container });
    await desk.contexts.restore(second.process, keeping(), never);
    assert.deepEqual(second.engine.tokens, [500]);
  });

  it("is saved in a file of a user that this process is not", { skip: needsRoot }, async () => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500], { container });
    engine.saveFault = async (response, file) => {
      await writeFile(file, "500".padEnd(5040), { mode: 0o600 });
      await chown(file, 54_321, 54_321);
      response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.equal(desk.contexts.latest("primary")?.result, "saved", JSON.stringify(desk.contexts.latest("primary")));
    const asProgram = await desk.start([500], { ordinal: 1 });
    asProgram.engine.saveFault = async (response, file) => {
      await writeFile(file, "500".padEnd(5040));
      await chown(file, 54_321, 54_321);
      response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
    };
    await desk.contexts.save(asProgram.process, keeping({}, { replicas: 2 }), 10_000);
    assert.equal(desk.contexts.latest("primary")?.result, "dropped", "a program's user is known");
  });

  it("is not taken from a link, which may lead anywhere", async () => {
    await using desk = await Desk.open();
    const { engine, process } = await desk.start([500], { container });
    const outside = join(desk.stateDir, "outside");
    await writeFile(outside, "500".padEnd(5040));
    engine.saveFault = async (response, file) => {
      await symlink(outside, file);
      response.writeHead(200).end('{"n_saved":500,"n_written":5040}');
    };
    await desk.contexts.save(process, keeping(), 10_000);
    assert.deepEqual([desk.contexts.latest("primary")?.result, await desk.files()], ["dropped", []]);
  });

  it("is not given to the content of another image of the same name", async () => {
    await using desk = await Desk.open();
    desk.image = "sha256:one";
    const first = await desk.start([500], { container });
    await desk.contexts.save(first.process, keeping(), 10_000);
    desk.image = "sha256:two";
    const second = await desk.start([0], { container });
    await desk.contexts.restore(second.process, keeping(), never);
    assert.deepEqual([second.engine.calls, await desk.files()], [[], []]);
  });

  it(
    "is closed to others again before a program of another user may pass to its own",
    { skip: needsRoot },
    async () => {
      await using desk = await Desk.open();
      await desk.start([500], { container });
      await desk.start([500], { container, ordinal: 1 });
      desk.owner = { uid: 54_321, gid: 54_321 };
      await chmod(desk.stateDir, 0o711);
      await desk.start([500]);
      const found = await Promise.all(
        ["", "main", "main-1"].map(async (path) => await stat(join(desk.stateDir, "contexts/primary", path))),
      );
      assert.deepEqual(
        found.map(({ mode, uid }) => [(mode & 0o777).toString(8), uid]),
        [
          ["711", 0],
          ["700", 54_321],
          ["700", 0],
        ],
      );
      await desk.start([500], { container });
      const again = await stat(desk.directory());
      assert.deepEqual([(again.mode & 0o777).toString(8), again.uid], ["777", 0]);
    },
  );

  it("is left out with its flag where the container engine refuses the mount, and nothing stays of it", async () => {
    await using desk = await Desk.open();
    const { started } = await desk.start([500], { container });
    const given = await desk.contexts.refused(started, new Error("its container cannot have it: no such directory"));
    assert.deepEqual(given.command, ["/bin/sh", "--port", "8081", "--model", "/tiny"]);
    assert.equal(given.contextPlace, undefined);
    assert.deepEqual(await readdir(join(desk.stateDir, "contexts/primary")), []);
    assert.deepEqual(
      desk.contexts.latest("primary")?.message,
      `${without}its container cannot have it: no such directory`,
    );
  });
});

describe("an engine that refuses its place for contexts", () => {
  const said =
    'build: 1\nerror while handling argument "--slot-save-path": not a directory: /berth/context\n\nusage:\n--slot-save-path PATH';

  it("ends, and the next one of the same kind starts without; one of another kind, or of the next operator, gets a place", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    desk.said = said;
    await desk.contexts.ended(first.process, keeping());
    const second = await desk.start([500]);
    assert.deepEqual(second.started.command, ["/bin/sh", "--port", "8081", "--model", "/tiny"]);
    assert.equal(
      desk.contexts.latest("primary")?.message,
      `${without}the engine before ended for it: error while handling argument "--slot-save-path": not a directory: /berth/context`,
    );
    await desk.contexts.save(second.process, keeping(), 10_000);
    assert.deepEqual(second.engine.calls, [], "it has no place to save to");
    assert.ok((await desk.start([500], { ref: "big" })).started.command.includes("--slot-save-path"));
    desk.successor();
    assert.ok((await desk.start([500])).started.command.includes("--slot-save-path"));
  });

  it("is not each engine that ends: one that crashed keeps its place", async () => {
    await using desk = await Desk.open();
    const first = await desk.start([500]);
    desk.said = "srv: saving to --slot-save-path\nSegmentation fault";
    await desk.contexts.ended(first.process, keeping());
    assert.ok((await desk.start([500])).started.command.includes("--slot-save-path"));
  });
});
