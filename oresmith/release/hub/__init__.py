"""The embedded Hub: a loopback server that the real clients of the Hugging Face Hub use through `HF_ENDPOINT`.

A development tool, on 127.0.0.1 alone. `server.serve` starts one; `names` and `refusal` are below everything else, then
`git`, `repository`, `objects`, `accounts`, `store`, the endpoints in `api`, and the pages for people in `pages`.
"""
