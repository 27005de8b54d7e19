import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Spool } from "../../src/lib/spool.ts";
import { tempDir } from "../support/temp-dir.ts";
import { fc } from "../support/fast-check.ts";
import { later } from "../support/later.ts";

async function readAll(spool: Spool): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of spool.read()) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

const disk = { take: () => undefined, give: () => undefined };

describe("Spool", () => {
  it("gives all bytes in order, with a faster reader or a faster writer", async () => {
    await using dir = await tempDir();
    const step = fc.oneof(
      fc.record({ kind: fc.constant("write" as const), size: fc.nat({ max: 50 }) }),
      fc.record({ kind: fc.constant("read" as const), size: fc.constant(0) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const spool = new Spool({ dir: dir.path, memoryBytes: 64, disk });
        const sent: Buffer[] = [];
        const got: Buffer[] = [];
        const reader = spool.read();
        let reading: Promise<void> | undefined;
        const readOne = async (): Promise<void> => {
          const { value } = await reader.next();
          if (value !== undefined) got.push(Buffer.from(value));
        };
        for (const { kind, size } of steps) {
          if (kind === "write") {
            const bytes = Buffer.from(Array.from({ length: size }, (_, at) => (at + sent.length) % 256));
            sent.push(bytes);
            await spool.write(bytes);
          } else reading = (reading ?? Promise.resolve()).then(readOne);
        }
        spool.end();
        await reading;
        for await (const chunk of reader) got.push(Buffer.from(chunk));
        await spool.close();
        assert.deepEqual(Buffer.concat(got), Buffer.concat(sent));
        assert.equal(spool.sizeBytes, Buffer.concat(sent).length);
      }),
    );
  });

  it("leaves no file that anybody could find", async () => {
    await using dir = await tempDir();
    await using spool = disposing(new Spool({ dir: dir.path, memoryBytes: 0, disk }));
    await spool.write(Buffer.from("secret"));
    assert.deepEqual(await readdir(dir.path), []);
  });

  it("reports a failure to its reader, after the bytes before it", async () => {
    await using dir = await tempDir();
    await using spool = disposing(new Spool({ dir: dir.path, memoryBytes: 100, disk }));
    await spool.write(Buffer.from("begun"));
    spool.fail(new Error("cut"));
    const reader = spool.read();
    assert.equal(String((await reader.next()).value), "begun");
    await assert.rejects(reader.next(), { message: "cut" });
  });

  it("ends a reader that waits when it is closed, and takes nothing more", async () => {
    await using dir = await tempDir();
    const spool = new Spool({ dir: dir.path, memoryBytes: 1, disk });
    await spool.write(Buffer.from("spilled"));
    const reading = later(readAll(spool));
    await Promise.all([spool.close(), spool.close()]);
    await reading;
    assert.equal(spool.write(Buffer.from("late")), undefined);
    assert.equal(spool.sizeBytes, 7);
  });

  it("makes its directory when it needs one, and rejects a write where it cannot", async () => {
    await using dir = await tempDir();
    const spool = new Spool({ dir: join(dir.path, "new"), memoryBytes: 0, disk });
    await spool.write(Buffer.from("x"));
    await spool.close();
    await writeFile(join(dir.path, "file"), "");
    const nowhere = new Spool({ dir: join(dir.path, "file"), memoryBytes: 0, disk });
    await assert.rejects(async () => await nowhere.write(Buffer.from("x")), { code: "EEXIST" });
    await nowhere.close();
  });
});

function disposing(spool: Spool): Spool & AsyncDisposable {
  return Object.assign(spool, { [Symbol.asyncDispose]: () => spool.close() });
}
