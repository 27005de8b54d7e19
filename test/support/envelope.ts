import { z } from "zod";

const schema = z.strictObject({
  error: z.strictObject({
    code: z.string(),
    message: z.string(),
    type: z.string(),
    openai_code: z.string().optional(),
    param: z.string().optional(),
    n_prompt_tokens: z.number().optional(),
    n_ctx: z.number().optional(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
});

/** The error envelope of a response; throws when it is anything else. */
export async function envelopeOf(response: Response): Promise<z.infer<typeof schema>> {
  return schema.parse(await response.json());
}

/** The same of a text. */
export function envelopeIn(json: string): z.infer<typeof schema> {
  return schema.parse(JSON.parse(json));
}
