import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { addressOf, anchorOf, pageOf } from "../../site/links.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** hack/site.sh in a clone whose site has no packages yet. */
async function makeSite(env: NodeJS.ProcessEnv): Promise<{ readonly code: unknown; readonly said: string }> {
  await using dir = await tempDir();
  await mkdir(join(dir.path, "site"));
  for (const file of ["hack/site.sh", "site/package.json", "site/package-lock.json", "site/.npmrc"])
    await cp(join(root, file), join(dir.path, file), { recursive: true });
  return await new Promise((resolve) => {
    execFile(join(dir.path, "hack/site.sh"), { env: { ...process.env, ...env } }, (error, _stdout, stderr) =>
      resolve({ code: error?.code, said: stderr.trimEnd().split("\n").at(-1) ?? "" }),
    );
  });
}

describe("make site", () => {
  it("says what is missing where the registry is out of reach", async () => {
    assert.deepEqual(await makeSite({ npm_config_registry: "http://127.0.0.1:9/" }), {
      code: 1,
      said: "make site: npm could not install VitePress: the package registry must be in reach once; then the site builds without a network",
    });
  });

  it("refuses a base that is no path", async () => {
    const { code, said } = await makeSite({ BASE: "berth" });
    assert.equal(code, 1);
    assert.match(said, /begins and ends with a slash, not berth$/);
  });
});

describe("links of the site", () => {
  it("give each file a page", () => {
    assert.equal(pageOf("docs/README.md"), "index.md");
    assert.equal(pageOf("docs/adr/README.md"), "adr/index.md");
    assert.equal(pageOf("docs/quick/k3s.md"), "quick/k3s.md");
    assert.equal(pageOf("SECURITY.md"), "project/security.md");
  });

  it("lead where they lead in the repository", () => {
    assert.equal(addressOf("docs/quick/k3s.md", "../security.md#in-a-cluster"), "/security.md#in-a-cluster");
    assert.equal(addressOf("docs/architecture.md", "adr/"), "/adr/index.md");
    assert.equal(addressOf("docs/README.md", "../AGENTS.md"), "/project/agents.md");
    assert.equal(addressOf("CONTRIBUTING.md", "README.md#start"), "/#start");
    assert.equal(addressOf("docs/edge.md", "../manifests/nginx/berth.conf"), "/files/manifests/nginx/berth.conf");
    assert.equal(addressOf("docs/edge.md", "#names"), "#names");
    assert.equal(addressOf("docs/edge.md", "https://example.com/a.md"), "https://example.com/a.md");
  });

  it("have GitHub's anchors", () => {
    assert.equal(anchorOf('`/v1`: Größe, & "more"'), "v1-größe--more");
  });
});
