/** Requests to the API of the controller that has served the page. */
import type { Identity } from "./documents";
import { Value } from "./store";

/** The key of the token in the storage of this window, which ends with it. */
const TOKEN_KEY = "sluice-token";

/** How long a request may take: longer than a switch may take to answer. */
const REQUEST_TIMEOUT_MS = 65_000;

/** Why a request has failed. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  /** Whether there was no complete answer. */
  get isUnreachable(): boolean {
    return this.status === 0;
  }
}

/** Why a token is asked for; `null` while none is. */
export const tokenRequest = new Value<ApiError | null>(null);

/** The code of a request for a token that the user has made, and not the controller. */
export const TOKEN_CHOSEN = "token_chosen";

/** Number of changes that have failed. */
export const failedChanges = new Value(0);

/** Who the controller takes us to be. */
export const identity = new Value<Identity | null>(null);

export function token(): string | null {
  return sessionStorage.getItem(TOKEN_KEY);
}

/** Whether a text has only characters that a token may have. */
export function isToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

export function setToken(value: string | null): void {
  if (value === null || value === "") sessionStorage.removeItem(TOKEN_KEY);
  else sessionStorage.setItem(TOKEN_KEY, value);
  tokenRequest.set(null);
}

/** Asks for a token although the controller asks for none. */
export function chooseToken(): void {
  tokenRequest.set(new ApiError(401, TOKEN_CHOSEN, ""));
}

export function headers(): Record<string, string> {
  const known = token();
  return known === null ? {} : { authorization: `Bearer ${known}` };
}

/** The error that an answer is. */
export async function errorOf(response: Response): Promise<ApiError> {
  let code = `http_${response.status}`;
  let message = `the controller has answered with status ${response.status}`;
  try {
    const body = (await response.json()) as { error?: { code?: string; message?: string } };
    code = body.error?.code ?? code;
    message = body.error?.message ?? message;
  } catch {
    // Not an answer of the API: the status has to do.
  }
  return new ApiError(response.status, code, message);
}

/** Asks for a token if the one that was used is not accepted; an answer to an earlier one says nothing. */
export function refuse(error: ApiError, used: string | null): void {
  const asks = error.status === 401 || error.status === 429 || error.code === "token_without_tls";
  if (asks && used === token()) tokenRequest.set(error);
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const used = token();
  const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  const init: RequestInit = {
    method,
    headers: { ...headers(), ...(body === undefined ? {} : { "content-type": "application/json" }) },
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    cache: "no-store",
  };
  if (body !== undefined) init.body = JSON.stringify(body);
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "the controller cannot be reached");
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  refuse(error, used);
  throw error;
}

/** The body of an answer. The connection may be lost while it is read. */
async function received<T>(body: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await body;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "answer_incomplete", "the answer of the controller was not received completely");
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send("GET", path, undefined, signal);
  return received(response.json() as Promise<T>, signal);
}

export async function getText(path: string): Promise<string> {
  return received((await send("GET", path)).text());
}

export async function change<T>(method: "PUT" | "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
  try {
    return await received((await send(method, path, body)).json() as Promise<T>);
  } catch (error) {
    failedChanges.set(failedChanges.get() + 1);
    throw error;
  }
}

/** A segment of a path. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}

/** A sentence for people about a request that has failed. */
export function describe(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  if (error.status === 403) return `Not permitted: ${error.message}.`;
  if (error.status === 401) return `A valid token is needed: ${error.message}.`;
  const text = error.message;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}
