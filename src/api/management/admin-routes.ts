import { z } from "zod";
import {
  authStatusSchema,
  createdTokenSchema,
  loginSchema,
  meSchema,
  newTokenSchema,
  tokenListSchema,
} from "../token.ts";
import { manifestBody } from "./parts.ts";
import type { RouteShape } from "./shape.ts";
import * as view from "./views.ts";

/** Configuration, providers and tokens. */
export const adminRoutes = {
  listUpstreams: {
    method: "GET",
    path: "/api/upstreams",
    scope: "admin",
    tag: "upstreams",
    summary: "External providers; secrets only by the name of their variable or file",
    answers: { 200: view.listOf(view.upstreamViewSchema) },
  },
  putUpstream: {
    method: "PUT",
    path: "/api/upstreams/{name}",
    scope: "admin",
    tag: "upstreams",
    summary: "Writes a provider's manifest",
    body: manifestBody,
    manifest: "Upstream",
    answers: { 201: z.strictObject({ name: z.string() }), 202: z.strictObject({ name: z.string() }) },
  },
  deleteUpstream: {
    method: "DELETE",
    path: "/api/upstreams/{name}",
    scope: "admin",
    tag: "upstreams",
    summary: "Removes a provider's manifest",
    answers: { 202: z.strictObject({ name: z.string() }) },
  },
  getConfig: {
    method: "GET",
    path: "/api/config",
    scope: "admin",
    tag: "config",
    summary: "What is in force, where each value comes from; secrets masked",
    answers: { 200: view.configViewSchema },
  },
  validateConfig: {
    method: "POST",
    path: "/api/config/validate",
    scope: "admin",
    tag: "config",
    summary: "Problems of the configuration directory, or of the manifests in the body",
    body: z.strictObject({ files: z.record(z.string(), z.string()) }).optional(),
    answers: { 200: view.diagnosticsSchema },
  },
  listTokens: {
    method: "GET",
    path: "/api/auth/tokens",
    scope: "admin",
    tag: "auth",
    summary: "Tokens, without their secrets",
    answers: { 200: tokenListSchema },
  },
  createToken: {
    method: "POST",
    path: "/api/auth/tokens",
    scope: "admin",
    tag: "auth",
    summary: "Makes a token; its secret is in this answer and nowhere else",
    body: newTokenSchema,
    answers: { 201: createdTokenSchema },
  },
  revokeToken: {
    method: "DELETE",
    path: "/api/auth/tokens/{id}",
    scope: "admin",
    tag: "auth",
    summary: "Revokes a token at once",
    answers: { 204: "nothing" },
  },
  authStatus: {
    method: "GET",
    path: "/api/auth/status",
    scope: "public",
    tag: "auth",
    summary: "Whether credentials are needed",
    answers: { 200: authStatusSchema },
  },
  login: {
    method: "GET",
    path: "/api/auth/login",
    scope: "public",
    tag: "auth",
    summary: "Where login really happens",
    answers: { 200: loginSchema },
  },
  me: {
    method: "GET",
    path: "/api/auth/me",
    scope: "any",
    tag: "auth",
    summary: "Who the caller is",
    answers: { 200: meSchema },
  },
} as const satisfies Record<string, RouteShape>;
