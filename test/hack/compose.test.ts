import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "node:test";

it("manifests/compose names the image that `make images` makes of this version", async () => {
  const text = async (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), "utf8");
  const [, version] = /"version": "([^"]+)"/.exec(await text("package.json")) ?? [];
  const [, image] = /image: \$\{BERTH_IMAGE:-([^}]+)\}/.exec(await text("manifests/compose/compose.yaml")) ?? [];
  assert.equal(image, `localhost/berth:${version}`);
});
