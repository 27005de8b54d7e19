import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { FactCache } from "../../src/models/facts.ts";
import type { GgufFacts } from "../../src/models/gguf.ts";
import { GgufError } from "../../src/models/gguf-reader.ts";
import { HeaderFiles, type ReadJournal } from "../../src/models/header-files.ts";
import { tempDir } from "../support/temp-dir.ts";

const facts: GgufFacts = {
  architecture: "llama",
  kind: "model",
  name: "m",
  contextCost: undefined,
  contextLength: 1,
  parameters: 1,
  quantization: "F32",
  pooling: undefined,
  hasChatTemplate: undefined,
  splitCount: 1,
};

/** A cache whose reader returns the given facts, and counts its calls. */
function counted(answer: () => GgufFacts = () => facts): { cache: FactCache; reads: string[] } {
  const reads: string[] = [];
  const cache = new FactCache(undefined, async (path) => {
    reads.push(path);
    return answer();
  });
  return { cache, reads };
}

/** Where a file has a problem: its reason and message. */
function problemIn(found: Awaited<ReturnType<FactCache["factsOf"]>>): unknown {
  return "reason" in found ? [found.reason, found.message] : undefined;
}

describe("facts of files", () => {
  it("refuses a directory in the place of a GGUF file, and takes a directory of another name", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "mounted.gguf");
    await mkdir(path);
    const cache = new FactCache();
    const refused = ["NotAModel", `${path} is a directory, and no GGUF file`];
    assert.deepEqual(problemIn(await cache.factsOf(path)), refused);
    assert.equal(problemIn(await cache.factsOf(directory.path)), undefined);
  });

  it("are those of one file at a time, and a file that is not to be read is tried again later", async () => {
    await using directory = await tempDir();
    const paths = ["a.gguf", "b.gguf", "c.gguf"].map((name) => join(directory.path, name));
    for (const path of paths) await writeTinyModel(path);
    let reading = 0;
    let isRefused = true;
    const journal: ReadJournal = {
      read(path) {
        if (isRefused && path === paths[1]) throw new Error("it ended an operator");
        assert.equal(++reading, 1, "no other file is read meanwhile");
        return { [Symbol.dispose]: () => (reading -= 1) };
      },
    };
    const cache = new FactCache(new HeaderFiles(journal));
    const look = async (): Promise<unknown> => {
      const found = await Promise.all(paths.map(async (path) => await cache.factsOf(path)));
      return found.map((each) => problemIn(each) ?? ("facts" in each && each.facts?.name));
    };
    const refused = ["Unreadable", `${paths[1]} cannot be read: it ended an operator`];
    assert.deepEqual(await look(), ["tiny", refused, "tiny"]);
    isRefused = false;
    assert.deepEqual(await look(), ["tiny", "tiny", "tiny"]);
    assert.equal(reading, 0);
  });

  it("are read once, and again when the file is written to, replaced or forgotten", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "a.gguf");
    await writeFile(path, "one");
    const { cache, reads } = counted();
    for (let look = 0; look < 3; look++) assert.ok("facts" in (await cache.factsOf(path)));
    assert.equal(reads.length, 1);
    await writeFile(path, "another length");
    await cache.factsOf(path);
    assert.equal(reads.length, 2);
    await utimes(path, 1, 2);
    await cache.factsOf(path);
    assert.equal(reads.length, 3);
    // A copy with the same length and time is another file all the same.
    await writeFile(`${path}.next`, "another length");
    await utimes(`${path}.next`, 1, 2);
    await rename(`${path}.next`, path);
    await cache.factsOf(path);
    assert.equal(reads.length, 4);
    for (const [kept, count] of [
      [[path], 4],
      [[], 5],
    ] as const) {
      cache.keep(new Set(kept));
      await cache.factsOf(path);
      assert.equal(reads.length, count, "forgotten when no slot asks for the file any more");
    }
  });

  it("are absent for another format, without a problem: engines have formats of their own", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "ggml-base.bin");
    await writeFile(path, "lmgg");
    const { cache } = counted(() => {
      throw new GgufError("NotAModel", "does not begin with GGUF");
    });
    const found = await cache.factsOf(path);
    assert.ok("facts" in found && found.facts === undefined && found.stamp.sizeBytes === 4);
    const folder = join(directory.path, "checkpoint");
    await mkdir(folder);
    const inside = await cache.factsOf(folder);
    assert.ok("facts" in inside && inside.facts === undefined && inside.stamp.isDirectory);
  });

  it("that could not be read are asked for again, though the file has not changed", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "a.gguf");
    await writeFile(path, "one");
    let isBroken = true;
    const { cache, reads } = counted(() => {
      if (isBroken) throw new Error("EIO: i/o error");
      return facts;
    });
    const broken = ["Unreadable", `${path} cannot be read: EIO: i/o error`];
    assert.deepEqual(problemIn(await cache.factsOf(path)), broken);
    isBroken = false;
    assert.ok("facts" in (await cache.factsOf(path)));
    assert.equal(reads.length, 2);
    await rm(path);
    assert.ok("reason" in (await cache.factsOf(path)));
  });

  it("are not waited for where opening would wait for ever", async () => {
    await using directory = await tempDir();
    const path = join(directory.path, "pipe.gguf");
    await promisify(execFile)("mkfifo", [path]);
    const refused = ["Unreadable", `${path} cannot be read: it is neither a file nor a directory`];
    assert.deepEqual(problemIn(await new FactCache().factsOf(path)), refused);
  });
});
