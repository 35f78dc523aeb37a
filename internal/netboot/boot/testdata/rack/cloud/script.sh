#!/bin/sh
echo {{.request.raw_query}}
