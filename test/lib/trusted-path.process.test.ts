import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { it } from "node:test";
import { distrust } from "../../src/lib/trusted-path.ts";
import { tempDir } from "../support/temp-dir.ts";

it("a path that no other user may change is a volume of the Pod, which the kubelet makes open to all", async () => {
  await using directory = await tempDir();
  await chmod(directory.path, 0o777);
  const reasons = () => ["/dev/shm", directory.path].map((path) => distrust(path)?.reason);
  const open = `${directory.path} may be written by everybody (mode 777)`;
  assert.deepEqual(reasons(), ["/dev/shm may be written by everybody (mode 1777)", open]);
  process.env["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  assert.deepEqual(reasons(), [undefined, open], "a directory within is not a volume");
});
