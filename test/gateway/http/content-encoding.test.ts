import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { ApiError } from "../../../src/api/errors.ts";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import { Charge } from "../../../src/gateway/admission/charge.ts";
import { decodeBody } from "../../../src/gateway/http/content-encoding.ts";

const packed = gzipSync(Buffer.alloc(1_000_000));
const gzip = { headers: { "content-encoding": "gzip" } };

async function codeOf(body: Buffer, limits: { bodyBytes?: number; budgetBytes?: number }): Promise<string> {
  const { bodyBytes = 2_000_000, budgetBytes = 2_000_000 } = limits;
  const budget = new BufferBudget(budgetBytes);
  const charge = new Charge(budget);
  try {
    const unpacked = await decodeBody(gzip, body, { bodyBytes, charge });
    assert.equal(budget.usedBytes, unpacked.length);
    charge.end();
    return `${unpacked.length} bytes`;
  } catch (error) {
    return error instanceof ApiError ? error.code : String(error);
  } finally {
    assert.equal(budget.usedBytes, 0);
  }
}

describe("decodeBody", () => {
  it("unpacks bodies within both limits, and counts them until they are released", async () => {
    assert.equal(await codeOf(packed, {}), "1000000 bytes");
    assert.equal(await codeOf(packed, { bodyBytes: 1_000_000, budgetBytes: 1_000_000 }), "1000000 bytes");
  });

  it("stops where it grows beyond the limit of one body, or of all", async () => {
    assert.equal(await codeOf(packed, { bodyBytes: 999_999 }), "dispatch.payload_too_large");
    assert.equal(await codeOf(packed, { budgetBytes: 999_999 }), "system.overloaded");
  });

  it("reports a body that is cut off, or that is not compressed", async () => {
    assert.equal(await codeOf(packed.subarray(0, 100), {}), "dispatch.invalid_request");
    assert.equal(await codeOf(Buffer.from("{}"), {}), "dispatch.invalid_request");
  });
});
